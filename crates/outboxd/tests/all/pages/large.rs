//! Pages over a large outbox: none counts rows, and each answers. How long they take is a measurement, by hand:
//! `OUTBOX_PAGE_ROWS=10000000 cargo test --release -p outboxd --test all pages::large -- --nocapture`.

use std::io::Write as _;
use std::time::{Duration, Instant};

use sqlx::PgPool;

use crate::program::{PATIENCE, Program};
use crate::web::{get, server};

const ROWS: &str = "OUTBOX_PAGE_ROWS";

/// How many times a page is asked for.
const TIMES: usize = 20;

const CONFIG: &str = r#"
[connections]
shop = "{url}"
[sources.orders]
on = "shop"
[sinks.lines]
file = "out/lines.jsonl"
[pipes.archive]
from = "orders"
to = "lines"
start = "now"
outage = "count"
attempts = 1
poll = "20ms"
[http]
listen = "127.0.0.1:0"
anonymous = "operator"
"#;

async fn fill(pool: &PgPool, rows: i64) -> String {
    let insert = "insert into outbox.messages (type, key, payload) \
         select 'order.' || (array['created', 'paid', 'sent', 'closed'])[1 + n % 4], 'customer-' || n % 100000, \
         convert_to('{\"n\":' || n || '}', 'UTF8') from generate_series(1, $1) n";
    sqlx::query(insert).bind(rows).execute(pool).await.unwrap();
    sqlx::query("analyze outbox.messages").execute(pool).await.unwrap();
    sqlx::query_scalar("select id::text from outbox.messages order by seq desc limit 1")
        .fetch_one(pool)
        .await
        .unwrap()
}

/// A tenth of them died, as after a bad release; as a settle notes it, without the work.
async fn let_die(pool: &PgPool, rows: i64) {
    let insert = "insert into outbox.parked (cursor, lane, seq, key, attempts, state, holds, code, detail) \
         select 'archive', 0, seq, key, 5, 'dead', false, 'HTTP_' || (array[500, 422])[1 + seq % 2], 'refused' \
         from outbox.messages where seq % 10 = 0 and seq <= $1";
    sqlx::query(insert).bind(rows).execute(pool).await.unwrap();
    sqlx::query("vacuum analyze outbox.parked").execute(pool).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_every_page_of_a_large_outbox_answers() {
    let Some(postgres) = testbed::postgres().await else { return };
    let rows = std::env::var(ROWS).ok().and_then(|rows| rows.parse().ok()).unwrap_or(100_000);
    let database = postgres.database().await.unwrap();
    let program = Program::migrated(&CONFIG.replace("{url}", database.url()));
    let pool = PgPool::connect(database.url()).await.unwrap();
    let last = fill(&pool, rows).await;
    let_die(&pool, rows).await;
    let mut running = program.start(&["run"]);
    let address = server(&mut running);
    running.wait_for("started");
    // The folder of its file is missing, so these are dead.
    for number in 0..5 {
        program.send(&format!("late-{number}"));
    }
    let begun = Instant::now();
    while !get(address, "/messages?filter=state%3Adead").await.1.contains("late-4") {
        assert!(begun.elapsed() < PATIENCE, "they never died");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for path in [
        "/",
        "/messages",
        "/messages?after=5000",
        "/messages?oldest_first=true",
        "/messages?filter=state%3Adead",
        "/messages?filter=state%3Apending",
        "/messages?filter=key%3Acustomer-77",
        "/messages?filter=type%3Aorder.paid+state%3Adone",
        "/messages?filter=type%3Anobody.knows",
        &format!("/messages?filter=id%3A{last}"),
        &format!("/messages/orders/{last}"),
        "/failures",
        "/failures/preview?verb=retry&place=outbox&name=orders&filter=state%3Adead",
        "/pipes",
        "/queues",
        "/doctor",
        "/audit",
        "/config",
    ] {
        let mut took = Vec::new();
        let mut answer = 0;
        for _ in 0..TIMES {
            let begun = Instant::now();
            answer = get(address, path).await.0;
            took.push(begun.elapsed());
        }
        took.sort_unstable();
        let (half, most) = (took[TIMES / 2], took[TIMES * 95 / 100 - 1]);
        assert_eq!(answer, 200, "{path}");
        let _ = writeln!(std::io::stderr(), "{rows} rows: {path}: p50 {half:.1?}, p95 {most:.1?}");
    }
    running.signal("TERM");
    let (code, said) = running.end();
    assert_eq!(code, 0, "{said}");
}

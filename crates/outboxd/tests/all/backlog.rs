//! A large backlog drains with flat memory.

use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection, Row};

use crate::program::Program;

/// Longer than a million messages take on a busy machine with an unoptimised build.
const PATIENCE: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread")]
async fn a_million_messages_in_postgres_drain_within_64_mib() {
    let Some(postgres) = testbed::postgres().await else { return };
    let database = postgres.database().await.unwrap();
    let program = Program::migrated(&format!(
        r#"
[connections]
shop = "{}"
[sources.orders]
on = "shop"
[sinks.lines]
file = "lines.jsonl"
[pipes.relay]
from = "orders"
to = "lines"
"#,
        database.url()
    ));
    let count: i64 = std::env::var("OUTBOX_BACKLOG").map_or(1_000_000, |count| count.parse().unwrap());
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let fill = "insert into outbox.messages (type, key, payload)
        select 'order.created', 'k' || n % 10000, convert_to(json_build_object('n', n, 'pad', repeat('x', 280))::text,
            'UTF8') from generate_series(1, $1) as n";
    sqlx::query(fill).bind(count).execute(&mut connection).await.unwrap();

    let running = program.start(&["run", "-q"]);
    let (start, mut early_peak) = (Instant::now(), None);
    loop {
        let delivered = "select coalesce(sum(delivered), 0)::bigint from outbox.cursors";
        let delivered: i64 = sqlx::query(delivered).fetch_one(&mut connection).await.unwrap().get(0);
        if delivered >= count / 4 && early_peak.is_none() {
            early_peak = Some(running.peak_memory());
        }
        if delivered == count {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "only {delivered} of {count} after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let (early, late) = (early_peak.unwrap(), running.peak_memory());
    assert!(late < 64 * 1024, "{late} KiB");
    assert!(late < early + 8 * 1024, "it grew from {early} to {late} KiB while draining");
    running.signal("TERM");
    assert_eq!(running.end().0, 0);
    let file = std::fs::File::open(program.path("lines.jsonl")).unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(file)).count();
    assert_eq!(i64::try_from(lines).unwrap(), count, "each once");
}

//! Writing to the log: in the caller's transaction, and from any language.

use outbox::conformance::source::SourceFixture;
use outbox::{ErrorKind, Message, Source};
use sqlx::Row;

use super::Log;

#[tokio::test]
async fn c1_an_order_and_its_event_commit_and_roll_back_together() {
    let Some(log) = Log::new().await else { return };
    let pool = log.outbox.pool();
    sqlx::raw_sql("create table orders (id text primary key)").execute(pool).await.unwrap();
    for (order, commits) in [("kept", true), ("dropped", false)] {
        let mut tx = pool.begin().await.unwrap();
        sqlx::query("insert into orders values ($1)").bind(order).execute(&mut *tx).await.unwrap();
        let event = Message::json("OrderCreated", &order).unwrap().key(order);
        log.outbox.enqueue(&mut tx, event).await.unwrap();
        if commits {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
    }
    let orders = sqlx::query("select id from orders").fetch_all(pool).await.unwrap();
    let events = log.source("c").claim(10).await.unwrap().messages;
    assert_eq!(orders.len(), 1);
    assert_eq!(events.iter().map(|event| event.key.as_deref().unwrap()).collect::<Vec<_>>(), ["kept"]);
    assert_eq!(&*events[0].payload, b"\"kept\"");
}

#[tokio::test]
async fn plain_sql_writes_from_any_language() {
    let Some(log) = Log::new().await else { return };
    let pool = log.outbox.pool();
    for statement in [
        "select outbox.enqueue('j', 'k', '{\"a\":  1}'::jsonb, '{\"x-correlation-id\": \"c\"}')",
        "select outbox.enqueue('t', 'k', '{\"a\":  1}')",
        "select outbox.enqueue('b', null, '\\x00ff'::bytea)",
        "insert into outbox.messages (type, payload) values ('i', 'plain')",
    ] {
        sqlx::raw_sql(statement).execute(pool).await.unwrap();
    }
    let came = log.source("c").claim(10).await.unwrap().messages;
    let payloads: Vec<&[u8]> = came.iter().map(|message| &*message.payload).collect();
    assert_eq!(payloads, [&b"{\"a\": 1}"[..], b"{\"a\":  1}", b"\x00\xff", b"plain"]);
    assert_eq!(came[0].correlation_id(), "c");
    assert_eq!(came[1].content_type, "application/json");
    assert_eq!(came[2].content_type, "application/octet-stream");
    let version = uuid::Uuid::parse_str(came[3].id.as_str()).unwrap().get_version_num();
    assert_eq!(version, 7);
}

#[tokio::test]
async fn limits_are_checked_inside_the_transaction_for_every_language() {
    let Some(log) = Log::new().await else { return };
    let pool = log.outbox.pool();
    let mut tx = pool.begin().await.unwrap();
    let error = log.outbox.enqueue(&mut tx, Message::new("big", vec![0; 1024 * 1024 + 1])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().ends_with("is 1048577 bytes, the limit is 1048576"), "{error}");
    log.outbox.enqueue(&mut tx, Message::new("fits", vec![0; 1024 * 1024])).await.unwrap();
    tx.commit().await.unwrap();
    for (statement, constraint) in [
        ("select outbox.enqueue('', null, '{}'::jsonb)", "outbox_type_must_not_be_empty"),
        (
            "select outbox.enqueue('t', null, convert_to(repeat('x', 1048577), 'UTF8'))",
            "outbox_payload_limit",
        ),
        ("select outbox.enqueue('t', null, '{}'::jsonb, '[]')", "outbox_headers_limit"),
        (
            "select outbox.enqueue('t', null, '{}'::jsonb, (select jsonb_object_agg(n::text, 'x')
             from generate_series(1, 65) n))",
            "outbox_headers_limit",
        ),
    ] {
        let error = sqlx::raw_sql(statement).execute(pool).await.unwrap_err();
        assert_eq!(error.as_database_error().unwrap().constraint(), Some(constraint), "{statement}");
    }
    // A larger limit reaches the table by migrating again.
    let limits = outbox::Limits { payload: 2 * 1024 * 1024, ..Default::default() };
    let roomy = log.outbox.clone().limits(limits);
    assert_eq!(roomy.migrate().await.unwrap(), ["limits: payload 2097152 bytes, 64 headers of 16384 bytes"]);
    assert!(roomy.migrate().await.unwrap().is_empty(), "nothing left to do");
    let mut tx = pool.begin().await.unwrap();
    roomy.enqueue(&mut tx, Message::new("fits now", vec![0; 1024 * 1024 + 1])).await.unwrap();
}

#[tokio::test]
async fn a_hand_run_script_leaves_nothing_to_migrate() {
    let Some(server) = testbed::postgres().await else { return };
    let database = server.database().await.unwrap();
    let outbox = outbox::postgres::Outbox::connect(database.url()).await.unwrap();
    let script = sqlx::AssertSqlSafe(outbox::postgres::script());
    sqlx::raw_sql(script).execute(outbox.pool()).await.unwrap();
    assert!(outbox.migrate().await.unwrap().is_empty());
}

#[tokio::test]
async fn without_the_migration_one_sentence_says_so() {
    let Some(server) = testbed::postgres().await else { return };
    let database = server.database().await.unwrap();
    let outbox = outbox::postgres::Outbox::connect(database.url()).await.unwrap();
    let error = outbox.cursor("c").claim(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotMigrated);
    assert!(error.advice().contains("outboxd migrate"));
}

#[tokio::test]
async fn a_notification_wakes_a_reader_long_before_its_pause_is_over() {
    let Some(log) = Log::new().await else { return };
    let outbox = log.outbox.clone().notify(true);
    assert_eq!(outbox.migrate().await.unwrap(), ["trigger: writers notify readers"]);
    let source = outbox.cursor("c");
    let hour = std::time::Duration::from_secs(3600);
    let mut woken = std::pin::pin!(source.wait(hour));
    // The listener connects in the background, so keep writing until it hears.
    let woke = async {
        loop {
            tokio::select! {
                () = &mut woken => return,
                () = tokio::time::sleep(std::time::Duration::from_millis(50)) => {
                    log.enqueue(vec![Message::new("t", "")]).await;
                }
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), woke).await.expect("nothing woke it");
    let row = sqlx::query("select count(*) from outbox.messages").fetch_one(log.outbox.pool()).await.unwrap();
    assert!(row.get::<i64, _>(0) > 0);
}

#[tokio::test]
async fn d6_what_is_done_and_older_than_thirty_days_is_removed_in_bounded_steps() {
    let Some(log) = Log::new().await else { return };
    let days = |days: i64| jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days);
    let aged = |name: &str, age| Message::new("t", name.to_owned()).key(name).occurred_at(days(age));
    log.enqueue((0..25).map(|n| aged(&format!("old {n}"), 31)).collect()).await;
    log.enqueue(vec![aged("young", 29), aged("old and dead", 31), aged("old and pending", 31)]).await;
    let source = log.source("c");
    let claim = source.claim(27).await.unwrap();
    let mut verdicts = vec![outbox::Verdict::Done; 27];
    let cause = outbox::Cause::new(outbox::code::HANDLER, "told to fail");
    verdicts[26] = outbox::Verdict::Dead { attempts: 1, cause, holds: true };
    source.settle(&claim, &verdicts).await.unwrap();
    let month = std::time::Duration::from_secs(30 * 24 * 3600);
    let mut steps = Vec::new();
    while steps.last() != Some(&0) {
        steps.push(outbox::admin::Admin::purge(&log.outbox, month, 10, false).await.unwrap());
    }
    assert_eq!(steps, [10, 10, 5, 0]);
    let left = sqlx::query("select convert_from(payload, 'UTF8') from outbox.messages order by seq");
    let left = left.fetch_all(log.outbox.pool()).await.unwrap();
    let left: Vec<String> = left.iter().map(|row| row.get(0)).collect();
    assert_eq!(left, ["young", "old and dead", "old and pending"]);
}

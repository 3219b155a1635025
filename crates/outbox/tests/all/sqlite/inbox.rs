//! Handlers on SQLite, where the database itself objects.

use outbox::{Failure, Message, Outcome, Sink, code};
use sqlx::SqlitePool;

use super::Fresh;

async fn count(pool: &SqlitePool, table: &str) -> i64 {
    let query = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
    sqlx::query_scalar(query).fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn k3_what_only_the_commit_objects_to_is_rejected_alone() {
    let fresh = Fresh::new().await;
    let pool = fresh.outbox.pool();
    for sql in [
        "CREATE TABLE orders (id INTEGER PRIMARY KEY)",
        "CREATE TABLE items (order_id INTEGER REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)",
        "INSERT INTO orders (id) VALUES (1)",
    ] {
        sqlx::query(sql).execute(pool).await.unwrap();
    }
    let sink = fresh.outbox.inbox().handler("c", |mut tx, message: Message| async move {
        let order = if &*message.payload == b"4" { 2 } else { 1 };
        sqlx::query("INSERT INTO items (order_id) VALUES (?)").bind(order).execute(&mut *tx).await?;
        Ok::<(), Failure>(())
    });
    let messages: Vec<_> = (0..10).map(|n| Message::new("item.added", n.to_string())).collect();
    for _ in 0..2 {
        let outcomes = sink.deliver(&messages).await;
        for (index, outcome) in outcomes.iter().enumerate() {
            match outcome {
                Outcome::Rejected(rejection) if index == 4 => {
                    assert_eq!(rejection.cause.code, code::HANDLER);
                    assert!(rejection.cause.detail.contains("FOREIGN KEY"), "{rejection:?}");
                    assert!(!rejection.permanent, "the order may come yet");
                }
                outcome => assert_eq!(*outcome, Outcome::Delivered, "{index}"),
            }
        }
        assert_eq!((count(pool, "items").await, count(pool, "outbox_inbox").await), (9, 9));
    }
    sqlx::query("INSERT INTO orders (id) VALUES (2)").execute(pool).await.unwrap();
    assert_eq!(sink.deliver(&messages).await, vec![Outcome::Delivered; 10]);
    assert_eq!((count(pool, "items").await, count(pool, "outbox_inbox").await), (10, 10));
}

#[tokio::test]
async fn an_outage_of_the_database_charges_nobody() {
    let fresh = Fresh::new().await;
    let pool = fresh.outbox.pool();
    sqlx::query("DROP TABLE outbox_inbox").execute(pool).await.unwrap();
    let sink = fresh.outbox.inbox().handler("c", |_tx, _message| async { Ok::<(), Failure>(()) });
    for count in [1, 3] {
        let messages: Vec<_> = (0..count).map(|n| Message::new("a", n.to_string())).collect();
        let outcomes = sink.deliver(&messages).await;
        assert_eq!(outcomes.len(), count);
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unavailable(_))), "{outcomes:?}");
    }
}

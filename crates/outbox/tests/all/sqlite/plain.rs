//! What a user does from Rust and from plain SQL: write with a transaction, within the limits.

use outbox::sqlite::{Outbox, migrations, script};
use outbox::{ErrorKind, Limits, Message, Source, Verdict};
use sqlx::{Connection, SqliteConnection};

use super::{Fresh, drain};

#[tokio::test]
async fn c1_an_order_and_its_event_commit_and_roll_back_together() {
    let fresh = Fresh::new().await;
    let pool = fresh.outbox.pool();
    sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY)").execute(pool).await.unwrap();
    for (id, commits) in [(1, true), (2, false), (3, true)] {
        let mut tx = pool.begin().await.unwrap();
        sqlx::query("INSERT INTO orders (id) VALUES (?)").bind(id).execute(&mut *tx).await.unwrap();
        let event = Message::json("OrderCreated", &serde_json::json!({ "id": id })).unwrap().key(id);
        fresh.outbox.enqueue(&mut tx, event).await.unwrap();
        if commits {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
    }
    let orders: Vec<i64> = sqlx::query_scalar("SELECT id FROM orders").fetch_all(pool).await.unwrap();
    assert_eq!(orders, [1, 3]);
    assert_eq!(drain(&fresh.outbox.cursor("relay")).await, [r#"{"id":1}"#, r#"{"id":3}"#]);
}

#[tokio::test]
async fn plain_sql_gets_an_id_a_time_and_a_content_type() {
    let fresh = Fresh::new().await;
    let pool = fresh.outbox.pool();
    for sql in [
        r#"INSERT INTO outbox_messages (type, key, payload) VALUES ('order.created', '42', '{"id":"ü"}')"#,
        r#"INSERT INTO outbox_messages (type, key, payload, headers) VALUES ('a', 42, x'00ff', '{"x-saga-id":"s"}')"#,
    ] {
        sqlx::query(sql).execute(pool).await.unwrap();
    }
    let cursor = fresh.outbox.cursor("relay");
    let claim = cursor.claim(10).await.unwrap();
    let [first, second] = &claim.messages[..] else { panic!("{claim:?}") };
    assert_eq!(first.payload, r#"{"id":"ü"}"#.as_bytes());
    assert_eq!((first.kind.as_str(), first.key.as_deref()), ("order.created", Some("42")));
    assert_eq!(first.content_type, "application/json");
    assert_eq!(uuid::Uuid::parse_str(first.id.as_str()).unwrap().get_version_num(), 7);
    let age = jiff::Timestamp::now().as_second() - first.occurred_at.as_second();
    assert!((0..60).contains(&age), "{}", first.occurred_at);
    let id_time = uuid::Uuid::parse_str(first.id.as_str()).unwrap().get_timestamp().unwrap().to_unix().0;
    assert!(id_time.abs_diff(first.occurred_at.as_second().cast_unsigned()) <= 1);
    assert_eq!((second.payload.as_ref(), second.key.as_deref()), (&[0, 255][..], Some("42")));
    assert_eq!(second.headers["x-saga-id"], "s");
}

#[tokio::test]
async fn a_thousand_ids_made_by_the_database_are_distinct_and_well_formed() {
    let fresh = Fresh::new().await;
    let pool = fresh.outbox.pool();
    sqlx::query(
        "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
         INSERT INTO outbox_messages (type, payload) SELECT 'a', i || '' FROM n",
    )
    .execute(pool)
    .await
    .unwrap();
    let ids: Vec<String> =
        sqlx::query_scalar("SELECT id FROM outbox_messages").fetch_all(pool).await.unwrap();
    assert_eq!(ids.len(), 1000);
    for id in ids {
        let uuid = uuid::Uuid::parse_str(&id).unwrap();
        assert_eq!((uuid.get_version_num(), uuid.get_variant()), (7, uuid::Variant::RFC4122), "{id}");
    }
}

#[tokio::test]
async fn the_limits_hold_for_plain_sql_with_a_sentence_that_says_what_is_wrong() {
    let fresh = Fresh::new().await;
    let outbox = fresh.outbox.clone().limits(Limits { payload: 10, headers: 2, header_bytes: 8 });
    let done = outbox.migrate().await.unwrap();
    assert_eq!(done, ["limits: payload 10 bytes, 2 headers of 8 bytes"]);
    let insert = async |columns: &'static str| {
        let sql = format!("INSERT INTO outbox_messages {columns}");
        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(outbox.pool()).await.map_err(|error| error.to_string())
    };
    for (columns, sentence) in [
        ("(type, payload) VALUES (' ', '')", "outbox: a message must have a type"),
        ("(type, payload) VALUES ('a', '12345678901')", "outbox: the payload is larger than 10 bytes"),
        ("(type, payload) VALUES ('a', 'üüüüüü')", "outbox: the payload is larger than 10 bytes"),
        ("(type, payload) VALUES ('a', 7)", "outbox: the payload must be text or a blob"),
        ("(type, key, payload) VALUES ('a', x'00', '')", "outbox: the key must be text"),
        (
            "(type, payload, headers) VALUES ('a', '', '[]')",
            "outbox: the headers must be a JSON object of strings",
        ),
        (
            "(type, payload, headers) VALUES ('a', '', 'x')",
            "outbox: the headers must be a JSON object of strings",
        ),
        (
            "(type, payload, headers) VALUES ('a', '', '{\"a\":1}')",
            "outbox: the headers must be a JSON object of",
        ),
        ("(type, payload, headers) VALUES ('a', '', '{\"\":\"1\"}')", "outbox: a header has no name"),
        (
            "(type, payload, headers) VALUES ('a', '', '{\"a\":\"\",\"b\":\"\",\"c\":\"\"}')",
            "outbox: there are more than 2 headers",
        ),
        (
            "(type, payload, headers) VALUES ('a', '', '{\"1234\":\"56789\"}')",
            "outbox: the headers are larger than 8",
        ),
        ("(type, payload, occurred_at) VALUES ('a', '', 'soon')", "outbox: occurred_at must be a time"),
    ] {
        let error = insert(columns).await.unwrap_err();
        assert!(error.contains(sentence), "{columns}: {error}");
    }
    insert("(type, payload, headers) VALUES ('a', '1234567890', '{\"1234\":\"5678\"}')").await.unwrap();
    insert("(type, payload, occurred_at) VALUES ('a', '', '2026-01-31 12:00:00')").await.unwrap();
    assert_eq!(drain(&outbox.cursor("relay")).await, ["1234567890", ""]);

    // A writer in Rust whose own limits are laxer meets those of the database.
    let mut conn = fresh.outbox.pool().acquire().await.unwrap();
    let error = fresh.outbox.enqueue(&mut conn, Message::new("a", "12345678901")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().ends_with("outbox: the payload is larger than 10 bytes"), "{error}");
}

#[tokio::test]
async fn an_id_that_exists_is_refused_and_the_transaction_lives_on() {
    let fresh = Fresh::new().await;
    let message = Message::new("a", "1");
    let mut tx = fresh.outbox.pool().begin().await.unwrap();
    fresh.outbox.enqueue(&mut tx, message.clone()).await.unwrap();
    let error = fresh.outbox.enqueue(&mut tx, message).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{}", error.chain());
    tx.commit().await.unwrap();
    assert_eq!(drain(&fresh.outbox.cursor("relay")).await, ["1"]);
}

#[tokio::test]
async fn migrating_is_told_once_and_a_missing_schema_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("new.db").display());
    let outbox = Outbox::connect(&url).await.unwrap();
    let error = outbox.cursor("relay").claim(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotMigrated);
    assert!(error.to_string().contains("the outbox tables are missing in"), "{error}");
    assert!(error.to_string().contains("new.db"), "{error}");
    let mut conn = outbox.pool().acquire().await.unwrap();
    let error = outbox.enqueue(&mut conn, Message::new("a", "")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotMigrated);

    let (one, two) = tokio::join!(outbox.migrate(), outbox.migrate());
    let applied = [one.unwrap(), two.unwrap()].concat();
    assert_eq!(applied.len(), migrations().len(), "each step once, though two migrate: {applied:?}");
    assert!(applied.contains(&"001 log".to_owned()));
    assert!(outbox.migrate().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_schema_applied_by_hand_is_complete_and_known() {
    let folder = tempfile::tempdir().unwrap();
    let outbox =
        Outbox::connect(&format!("sqlite:{}", folder.path().join("hand.db").display())).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(script())).execute(outbox.pool()).await.unwrap();
    let schema = "SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_master ORDER BY name)";
    let by_hand: String = sqlx::query_scalar(schema).fetch_one(outbox.pool()).await.unwrap();
    assert!(outbox.migrate().await.unwrap().is_empty());
    let migrated: String =
        sqlx::query_scalar(schema).fetch_one(Fresh::new().await.outbox.pool()).await.unwrap();
    assert_eq!(by_hand, migrated);
}

#[tokio::test]
async fn a_full_disk_is_temporary_and_leaves_everything_as_it_was() {
    let fresh = Fresh::new().await;
    fresh.write("a", 0..3).await;
    let cursor = fresh.outbox.cursor("relay");
    let claim = cursor.claim(2).await.unwrap();
    let mut conn = SqliteConnection::connect(&fresh.url).await.unwrap();
    let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut conn).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}")))
        .execute(&mut conn)
        .await
        .unwrap();
    let large = Message::new("large", vec![0; 500_000]);
    let error = fresh.outbox.enqueue(&mut conn, large).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{}", error.chain());
    assert!(error.is_temporary() && error.to_string().contains("no space left"), "{error}");
    cursor.settle(&claim, &[Verdict::Done, Verdict::Done]).await.unwrap();
    assert_eq!(drain(&cursor).await, ["a2"]);
}

/// As SQLite does it by itself after a failure of the disk.
#[tokio::test]
async fn a_transaction_that_the_database_has_rolled_back_by_itself_spoils_no_connection() {
    let fresh = Fresh::new().await;
    let pool = fresh.outbox.pool();
    for round in 0..10 {
        let mut tx =
            pool.begin_with("BEGIN IMMEDIATE").await.unwrap_or_else(|error| panic!("{round}: {error}"));
        sqlx::raw_sql("ROLLBACK").execute(&mut *tx).await.unwrap();
        assert!(tx.commit().await.is_err(), "there is nothing to commit");
    }
    fresh.write("a", 0..3).await;
    assert_eq!(drain(&fresh.outbox.cursor("relay")).await, ["a0", "a1", "a2"]);
}

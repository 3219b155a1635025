//! In PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use outbox::sql::{Kind, Statements};
use outbox::{Inbox as _, Message, Outcome, Sink, code};
use serde_json::json;
use sqlx::{AssertSqlSafe, Row};

use super::{Shop, for_every_database, order, rejection};
use crate::postgres::Log;

const DDL: &str = "
    create table orders (id uuid primary key, qty int not null, doc jsonb, at timestamptz, note text);
    create table stock (sku varchar(50) primary key, left_over int);
    insert into stock values ('a', 1000)";

async fn made(log: Option<Log>) -> Option<Log> {
    let log = log?;
    Shop::run(&log, DDL).await;
    Some(log)
}

#[async_trait]
impl Shop for Log {
    const KIND: Kind = Kind::Postgres;
    async fn new() -> Option<Self> {
        made(Log::new().await).await
    }
    fn sink(&self, statements: Statements) -> Arc<dyn Sink> {
        Arc::new(self.outbox.inbox().sql("c", statements).unwrap())
    }
    async fn run(&self, sql: &str) {
        let mut tx = self.outbox.pool().begin().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
    }
    async fn text(&self, sql: &str) -> String {
        let sql = format!("select ({sql})::text");
        let mut tx = self.outbox.pool().begin().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(&mut *tx).await.unwrap().get(0)
    }
}

for_every_database!(Log, ":payload.qty: it cannot be read as integer");

/// The same through a pooler in transaction mode.
struct Pooled(Log);

#[async_trait]
impl Shop for Pooled {
    const KIND: Kind = Kind::Postgres;
    async fn new() -> Option<Self> {
        made(Log::pooled().await).await.map(Self)
    }
    fn sink(&self, statements: Statements) -> Arc<dyn Sink> {
        Shop::sink(&self.0, statements)
    }
    async fn run(&self, sql: &str) {
        Shop::run(&self.0, sql).await;
    }
    async fn text(&self, sql: &str) -> String {
        Shop::text(&self.0, sql).await
    }
}

mod pooled {
    use super::{Pooled, for_every_database};

    for_every_database!(Pooled, ":payload.qty: it cannot be read as integer");
}

#[tokio::test]
async fn values_become_what_their_columns_hold() {
    let Some(log) = <Log as Shop>::new().await else { return };
    Shop::run(
        &log,
        "create type mood as enum ('fine', 'bad');
         create table kinds (id uuid, id_text text, body bytea, n numeric(10, 2), f float8, yes bool, tags jsonb, word jsonb,
                             head jsonb, m mood, day date, at timestamp, small int2, a text[], attempts bigint)",
    )
    .await;
    let sink = super::sink(
        &log,
        &["insert into kinds values (:id, :id, :payload, :payload.n, :payload.f, :payload.yes, :payload.tags, :payload.word,
                                     :header.h, :payload.m, :time, :time, :payload.small, :payload.a, :attempts)"],
    );
    let body = json!({ "n": 12.5, "f": 1e300, "yes": true, "tags": [1, {"a": null}], "word": "it's", "m": "fine", "small": 7,
                       "a": "{x,y}" });
    let message = Message::json("kinds", &body)
        .unwrap()
        .header("h", "x")
        .occurred_at("2026-01-31T12:00:00.25Z".parse().unwrap());
    assert_eq!(sink.deliver(std::slice::from_ref(&message)).await, [Outcome::Delivered]);
    let row = Shop::text(&log, "select kinds from kinds").await;
    let body = message.payload.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let expected = format!(
        r#"({id},{id},"\\x{body}",12.50,1e+300,t,"[1, {{""a"": null}}]","""it's""","""x""",fine,2026-01-31,"2026-01-31 12:00:00.25",7,"{{x,y}}",0)"#,
        id = message.id
    );
    assert_eq!(row, expected);
    for (name, value, part) in [
        ("small", json!(70000), ":payload.small: it cannot be read as smallint"),
        ("m", json!("odd"), ":payload.m: it cannot be read as mood"),
        ("word", json!("a\0b"), ":payload.word: it cannot be read as jsonb"),
        ("a", json!("a\0b"), ":payload.a: it has a NUL character"),
        ("n", json!(1e20), "statement 1 with :id"),
    ] {
        let mut body = serde_json::from_slice::<serde_json::Value>(&message.payload).unwrap();
        body[name] = value;
        let bad = Message::json("kinds", &body).unwrap().header("h", "x");
        let outcomes = sink.deliver(&[bad]).await;
        let rejection = rejection(&outcomes[0]);
        assert!(rejection.permanent && rejection.cause.code == code::UNFIT, "{rejection:?}");
        assert!(rejection.cause.detail.contains(part), "{rejection:?}");
    }
}

#[tokio::test]
async fn a_column_that_got_another_type_makes_no_message_dead() {
    let Some(log) = <Log as Shop>::new().await else { return };
    let sink = super::sink(&log, &["insert into orders (id, qty) values (:id, :payload.qty)"]);
    assert_eq!(sink.deliver(&[order(1)]).await, [Outcome::Delivered]);
    Shop::run(&log, "alter table orders alter column qty type bigint").await;
    let large = order(5_000_000_000_u64);
    let outcomes = sink.deliver(std::slice::from_ref(&large)).await;
    assert!(
        matches!(&outcomes[0], Outcome::Unavailable(cause) if cause.detail.contains("have changed")),
        "{outcomes:?}"
    );
    assert_eq!(sink.deliver(&[large]).await, [Outcome::Delivered]);
    Shop::run(&log, "alter table orders alter column qty type jsonb using to_jsonb(qty)").await;
    let next = order(7);
    let outcomes = sink.deliver(std::slice::from_ref(&next)).await;
    assert!(
        matches!(&outcomes[0], Outcome::Unavailable(cause) if cause.detail.contains("jsonb")),
        "{outcomes:?}"
    );
    assert_eq!(sink.deliver(&[next]).await, [Outcome::Delivered]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_met_again_at_no_charge() {
    let Some(log) = <Log as Shop>::new().await else { return };
    // Whoever has waited for so long looks whether it waits for itself, once: that is to be the sink, and not before
    // it does.
    let patience = "alter database NAME set deadlock_timeout = '3s'".replace("NAME", log.database.name());
    Shop::run(&log, &format!("insert into stock values ('b', 0); {patience}")).await;
    let outbox = outbox::postgres::Outbox::connect(log.database.url()).await.unwrap();
    let step = |value| format!("update stock set left_over = left_over - 1 where sku = :payload.{value}");
    let statements = Statements::parse(Kind::Postgres, &[step("first"), step("second")]).unwrap();
    let sink = outbox.inbox().sql("c", statements).unwrap();
    let mut other = log.outbox.pool().begin().await.unwrap();
    sqlx::raw_sql("set local deadlock_timeout = '60s'; update stock set left_over = 5 where sku = 'b'")
        .execute(&mut *other)
        .await
        .unwrap();
    let message = Message::json("moved", &json!({ "first": "a", "second": "b" })).unwrap();
    let delivering = tokio::spawn(async move { sink.deliver(&[message]).await });
    let waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    super::until(async || Shop::text(&log, waits).await == "1").await;
    let crossing = "update stock set left_over = left_over + 100 where sku = 'a'";
    sqlx::raw_sql(crossing).execute(&mut *other).await.expect("the other one is given up");
    other.commit().await.unwrap();
    assert_eq!(delivering.await.unwrap(), [Outcome::Delivered]);
    let left = "select string_agg(left_over::text, ',' order by sku) from stock";
    assert_eq!(Shop::text(&log, left).await, "1099,4");
}

#[tokio::test]
async fn a_statement_that_the_server_cannot_read_is_told_and_charges_nobody() {
    let Some(log) = <Log as Shop>::new().await else { return };
    for (text, part) in [
        ("insrt into orders values (:id)", "syntax error"),
        ("insert into orders (idd) values (:id)", "idd"),
        ("select num_nulls(:id)", "could not determine data type"),
    ] {
        let outcomes = super::sink(&log, &[text]).deliver(&[order(1)]).await;
        assert!(
            matches!(&outcomes[0], Outcome::Unavailable(cause) if cause.detail.contains(part)),
            "{outcomes:?}"
        );
    }
    Shop::run(
        &log,
        "create procedure book(id uuid, qty int) language sql as $$ insert into orders values (id, qty) $$",
    )
    .await;
    let sink = super::sink(&log, &["CALL book(:id::uuid, :payload.qty::int)"]);
    assert_eq!(sink.deliver(&[order(1)]).await, [Outcome::Delivered]);
    assert!(log.outbox.inbox().sql("c", Statements::parse(Kind::Sqlite, &["select 1"]).unwrap()).is_err());
}

#[tokio::test]
async fn k4_a_statement_that_takes_too_long_is_rejected_alone() {
    let Some(log) = <Log as Shop>::new().await else { return };
    let patience = "alter database NAME set statement_timeout = '2s'".replace("NAME", log.database.name());
    Shop::run(&log, &patience).await;
    let outbox = outbox::postgres::Outbox::connect(log.database.url()).await.unwrap();
    let texts = ["select pg_sleep(:payload.qty::int)", super::ORDER];
    let sink = outbox.inbox().sql("c", Statements::parse(Kind::Postgres, &texts).unwrap()).unwrap();
    let outcomes = sink.deliver(&[order(0), order(30), order(0)]).await;
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Delivered, &Outcome::Delivered), "{outcomes:?}");
    let rejection = rejection(&outcomes[1]);
    assert!(!rejection.permanent && rejection.cause.code == code::REFUSED, "{rejection:?}");
    assert!(rejection.cause.detail.contains("statement timeout"), "{rejection:?}");
    assert_eq!(Shop::text(&log, "select count(*) from orders").await, "2");
}

#[tokio::test]
async fn k4_a_connection_that_breaks_in_a_statement_charges_nobody_in_a_batch_of_any_size() {
    let Some(log) = <Log as Shop>::new().await else { return };
    let statements = ["select pg_terminate_backend(pg_backend_pid()) where :payload.qty::int > 0"];
    let sink = super::sink(&log, &statements);
    for count in [1, 2] {
        let messages: Vec<_> = (1..=count).map(order).collect();
        let outcomes = sink.deliver(&messages).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unavailable(_))), "{outcomes:?}");
        for message in &messages {
            assert!(
                log.outbox.inbox().history(&message.id).await.unwrap().is_empty(),
                "no attempt was spent"
            );
        }
    }
}

//! What is kept goes to a table that somebody else made: `PendingMessages` of an inventory.

use std::sync::Arc;
use std::time::Duration;

use outbox::table::{Draft, Reading};
use outbox::{ErrorKind, Message, Pipe, Publisher, Source, Store, mysql, postgres};
use sqlx::{AssertSqlSafe, Row};

use super::broker::{Shop, causes, exchange, short};
use crate::rabbitmq::{Scene, proxy};

const POSTGRES: &str = r#"
    create type "Status" as enum ('PENDING', 'SENT', 'FAILED');
    create table "PendingMessages" (
        "Id" uuid primary key,
        "MessageType" varchar(200) not null,
        "AggregateId" varchar(100),
        "Payload" text not null,
        "CorrelationId" varchar(100),
        "CreatedAt" timestamp(3) not null,
        "Status" "Status" not null,
        "RetryCount" integer not null,
        "LastError" text,
        "MachineName" text not null default 'here'
    )"#;

const MYSQL: &str = "
    create table PendingMessages (
        Id char(36) primary key,
        MessageType varchar(200) not null,
        AggregateId varchar(100),
        Payload longtext not null,
        CorrelationId varchar(100),
        CreatedAt datetime(3) not null,
        Status enum('PENDING', 'SENT', 'FAILED') not null,
        RetryCount int not null,
        LastError text,
        MachineName varchar(50) not null default 'here',
        index (Status, CreatedAt), index (AggregateId)
    )";

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

fn draft() -> Draft {
    Draft {
        table: text("PendingMessages"),
        id: text("Id"),
        kind: text("MessageType"),
        key: text("AggregateId"),
        payload: text("Payload"),
        content_type: text("'application/octet-stream'"),
        header_columns: [("x-correlation-id".to_owned(), "CorrelationId".to_owned())].into(),
        occurred_at: text("CreatedAt"),
        pending: text("Status = 'PENDING' AND RetryCount < 5"),
        done: text("Status = 'SENT'"),
        dead: text("Status = 'FAILED'"),
        attempts: text("RetryCount"),
        error: text("LastError"),
        ..Draft::default()
    }
}

/// The network to the broker is cut in the middle of it, twice.
async fn e4(open: impl AsyncFn() -> (Arc<dyn Store>, Arc<dyn Source>), scene: Scene) {
    let scene = scene.with_orders().await;
    let proxy = proxy(&scene).await;
    let url = proxy.reroute(&scene.url).unwrap();
    let mut publishers = Vec::new();
    for _ in 0..2 {
        let publisher = Publisher::new(Arc::new(exchange(&url)), open().await.0);
        publishers.push(publisher.timeout(Duration::from_secs(1)).probe(short()));
    }
    let (store, source) = open().await;
    let shop = Shop::open(publishers, store, Pipe::new(source, exchange(&url)));
    for _ in 0..2 {
        shop.confirms(10).await;
        proxy.refuse();
        proxy.cut();
        shop.keeps(15).await;
        proxy.accept();
    }
    shop.confirms(10).await;
    let answers = shop.close(&scene).await;
    assert!(causes(&answers).contains("behind"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e4_pending_messages_in_postgres() {
    let (Some(server), Some(scene)) = (testbed::postgres().await, Scene::shared().await) else { return };
    let database = server.database().await.unwrap();
    let pool = sqlx::PgPool::connect(database.url()).await.unwrap();
    sqlx::raw_sql(POSTGRES).execute(&pool).await.unwrap();
    let open = async || {
        let table = postgres::Table::connect(database.url(), draft().check().unwrap()).await.unwrap();
        (table.store(true).unwrap(), table.sources(&Reading::default()).remove(0))
    };
    e4(open, scene).await;
    let sql = r#"select count(*), count(*) filter (where "Status" = 'SENT') from "PendingMessages""#;
    let row = sqlx::query(sql).fetch_one(&pool).await.unwrap();
    let (all, sent): (i64, i64) = (row.get(0), row.get(1));
    assert!(all == sent && all > 0, "{all} were kept, {sent} sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e4_pending_messages_in_mariadb() {
    let (Some(server), Some(scene)) = (testbed::mariadb().await, Scene::shared().await) else { return };
    let database = server.database().await.unwrap();
    let pool = sqlx::MySqlPool::connect(database.url()).await.unwrap();
    sqlx::raw_sql(MYSQL).execute(&pool).await.unwrap();
    let open = async || {
        let table = mysql::Table::connect(database.url(), draft().check().unwrap()).await.unwrap();
        (table.store(true).unwrap(), table.sources(&Reading::default()).remove(0))
    };
    e4(open, scene).await;
}

#[tokio::test]
async fn a_table_that_cannot_be_written_to_by_its_mapping_is_told_with_every_obstacle() {
    let Some(server) = testbed::postgres().await else { return };
    let database = server.database().await.unwrap();
    let pool = sqlx::PgPool::connect(database.url()).await.unwrap();
    let store = async |ddl: &str, draft: Draft| {
        let ddl = format!(r#"drop table if exists "PendingMessages"; drop type if exists "Status"; {ddl}"#);
        sqlx::raw_sql(AssertSqlSafe(ddl)).execute(&pool).await.unwrap();
        let table = postgres::Table::connect(database.url(), draft.check().unwrap()).await.unwrap();
        table.store(true)
    };
    assert!(store(POSTGRES, draft()).await.is_ok());
    for (from, to, told) in [
        ("not null default 'here'", "not null", "column 'MachineName' needs a value that nobody gives"),
        (r#""Id" uuid"#, r#""Id" bigint"#, "id: column 'Id' is a number"),
        ("timestamp(3)", "timestamp(0)", "order_by: column 'CreatedAt' (timestamp(0)) keeps no thousandths"),
        (
            r#""MessageType" varchar(200)"#,
            r#""MessageType" "Status""#,
            "type: column 'MessageType' is an enum",
        ),
    ] {
        let error = store(&POSTGRES.replacen(from, to, 1), draft()).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mapping);
        assert!(error.to_string().contains(told), "{error}");
    }
    let by_id = Draft { order_by: vec!["Id".to_owned()], ..draft() };
    let error = store(POSTGRES, by_id).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("order_by: column 'Id' does not tell in which order"), "{error}");
    let inside = Draft { headers: text("Payload->headers"), ..draft() };
    let error = store(POSTGRES, inside).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("headers: 'Payload->headers' is a member of JSON"), "{error}");
}

#[tokio::test]
async fn what_would_not_come_out_of_the_table_as_it_is_is_not_admitted() {
    let Some(server) = testbed::postgres().await else { return };
    let database = server.database().await.unwrap();
    let pool = sqlx::PgPool::connect(database.url()).await.unwrap();
    sqlx::raw_sql(POSTGRES).execute(&pool).await.unwrap();
    let table = postgres::Table::connect(database.url(), draft().check().unwrap()).await.unwrap();
    let store = table.store(true).unwrap();
    let fine = Message::new("product.created", "{}").key("p-1");
    for (wrong, told) in [
        (fine.clone().id("7"), "its id '7' does not fit column 'Id', which holds UUIDs"),
        (fine.clone().header("x-tenant", "a"), "it has a header 'x-tenant', and the mapping has no column"),
        (fine.clone().content_type("text/plain"), "every content type in the table is"),
        (fine.clone().key("k".repeat(101)), "its key has 101 characters, and column 'AggregateId' holds 100"),
        (Message::new("t", vec![0xff]), "its payload is not UTF-8"),
        (Message::new("t", "a\0b"), "its payload has a NUL character"),
        (fine.clone().occurred_at("0900-01-01T00:00:00Z".parse().unwrap()), "before the year 1000"),
    ] {
        let error = store.admit(wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(told), "{error}");
    }
    let admitted = store.admit(fine.correlation("c-1")).unwrap();
    store.keep(std::slice::from_ref(&admitted)).await.unwrap();
    let claim = table.sources(&Reading::default()).remove(0).claim(10).await.unwrap();
    let came = claim.messages[0].clone().occurred_at(admitted.occurred_at);
    assert_eq!(came, admitted, "but for the time, by which the table is ordered");
}

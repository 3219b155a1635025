//! A mapped table and a person's mistakes: what one sees when the table, the mapping or the login is not right.

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};
use testbed::Database;

use crate::program::{Program, Ran};

const DDL: &str = r#"
    create table "NAME" (
        "Id" uuid primary key default gen_random_uuid(), "Type" text not null default 'thing.happened', "Body" text,
        "At" timestamptz not null default now(), "SentAt" timestamptz, "Attempts" integer not null default 0, "Error" text
    )"#;

fn source(name: &str) -> String {
    format!(
        r#"
[sources.{name}]
on = "db"
table = "{name}"
id = "Id"
type = "Type"
payload = "Body"
order_by = "At"
pending = "SentAt IS NULL AND Attempts < 5"
done = "SentAt = now"
attempts = "Attempts"
error = "Error"
[pipes.{name}]
from = "{name}"
to = "lines"
poll = "20ms"
"#
    )
}

async fn database(tables: &[&str]) -> Option<(Database, PgPool)> {
    let database = testbed::postgres().await?.database().await.unwrap();
    let pool = PgPool::connect(database.url()).await.unwrap();
    for table in tables {
        sqlx::raw_sql(AssertSqlSafe(DDL.replace("NAME", table))).execute(&pool).await.unwrap();
    }
    Some((database, pool))
}

fn config(url: &str, sources: &str) -> String {
    format!("[connections]\ndb = \"{url}\"\n[sinks.lines]\nfile = \"lines.jsonl\"\n{sources}")
}

async fn insert(pool: &PgPool, table: &str) {
    let sql = format!(r#"insert into "{table}" ("Body") values ('{{}}')"#);
    sqlx::query(AssertSqlSafe(sql)).execute(pool).await.unwrap();
}

/// The one line of the log that is an error.
pub fn error_line(ran: &Ran, code: i32) -> &str {
    assert_eq!(ran.code, code, "{ran:#?}");
    let errors: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("ERROR")).collect();
    assert!(matches!(errors[..], [_]), "{ran:#?}");
    errors[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_does_not_exist_is_one_line() {
    let Some((database, _pool)) = database(&[]).await else { return };
    let program = Program::with(&config(database.url(), &source("Events")));
    let ran = program.run(&["run", "--once"]);
    let line = error_line(&ran, 1);
    assert!(
        line.contains("there is no table 'Events'") && line.contains("source 'Events' at postgres://"),
        "{line}"
    );
    assert!(line.contains("change the mapping in the configuration, or the table"), "{line}");
    let listed = program.run(&["list"]);
    let (error, help) = listed.only_error(1);
    assert!(error.contains("there is no table 'Events'"), "{error}");
    assert!(help.contains("outboxd doctor"), "{help}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_of_the_wrong_type_is_one_line() {
    let Some((database, pool)) = database(&["Events"]).await else { return };
    let change = r#"alter table "Events" alter "Attempts" drop default, alter "Attempts" type text, alter "Body" type integer using 1"#;
    sqlx::raw_sql(change).execute(&pool).await.unwrap();
    let ran = Program::with(&config(database.url(), &source("Events"))).run(&["run", "--once"]);
    let line = error_line(&ran, 1);
    for part in [
        "payload: column 'Body' of table 'Events' is int4, and must be text, JSON or bytes",
        "attempts: column 'Attempts' of table 'Events' is text, and must be a whole number",
        "pending: column 'Attempts' is text, which 5 does not fit",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_dropped_while_running_stops_that_source_alone_and_status_says_why() {
    let Some((database, pool)) = database(&["Good", "Bad"]).await else { return };
    let program = Program::with(&config(database.url(), &(source("Good") + &source("Bad"))));
    insert(&pool, "Bad").await;
    let mut running = program.start(&["run"]);
    running.wait_for("cycle pipe=\"Bad\"");
    // Only a failure would write to it.
    sqlx::raw_sql(r#"alter table "Bad" drop column "Error""#).execute(&pool).await.unwrap();
    let line = running.wait_for("the pipe has stopped");
    assert!(line.contains("Bad") && line.contains("column m.Error does not exist"), "{line}");
    insert(&pool, "Good").await;
    running.wait_for("cycle pipe=\"Good\"");
    let ran = program.run(&["status", "--format", "json"]);
    assert_eq!(ran.code, 1, "{ran:#?}");
    let status: Value = serde_json::from_str(&ran.stdout).unwrap();
    let pipe =
        |name: &str| status["pipes"].as_array().unwrap().iter().find(|pipe| pipe["pipe"] == name).unwrap();
    assert_eq!((&pipe("Good")["pending"], &pipe("Good")["error"]), (&json!(0), &Value::Null), "{status}");
    assert!(pipe("Bad")["error"].as_str().unwrap().contains("table 'Bad' has no column 'Error'"), "{status}");
    running.signal("TERM");
    assert_eq!(running.end().0, 1, "the end tells that one has failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_refuses_the_login_is_one_line_and_costs_nothing() {
    let Some((database, pool)) = database(&["Events"]).await else { return };
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let vhost = rabbitmq.vhost().await.unwrap();
    let (before, place) =
        vhost.url().split_once('@').map(|(_, place)| ("amqp://nobody:canary@", place)).unwrap();
    let text = config(database.url(), &source("Events"))
        .replace("file = \"lines.jsonl\"", "on = \"rabbit\"\nexchange = \"events\"")
        .replace("[sinks.lines]", &format!("rabbit = \"{before}{place}\"\n[sinks.lines]"));
    let program = Program::with(&text);
    insert(&pool, "Events").await;
    let ran = program.run(&["run", "--once"]);
    let line = error_line(&ran, 5);
    assert!(line.contains("FORBIDDEN") && line.contains("left for later"), "{line}");
    assert!(!ran.stderr.contains("canary"), "{ran:#?}");
    let listed = program.json(&["list"]);
    assert_eq!(
        (&listed["messages"][0]["state"], &listed["messages"][0]["attempts"]),
        (&json!("pending"), &json!(0))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_tells_whether_a_table_in_mariadb_can_be_reached_and_fits() {
    let Some(mariadb) = testbed::mariadb().await else { return };
    let database = mariadb.database().await.unwrap();
    let program = Program::with(&config(database.url(), &source("Events")));
    let ran = program.run(&["doctor", "--format", "json"]);
    assert_eq!(ran.code, 4, "{ran:#?}");
    assert!(ran.stdout.contains("there is no table 'Events'"), "{ran:#?}");
    let pool = sqlx::MySqlPool::connect(database.url()).await.unwrap();
    let ddl = "create table `Events` (`Id` char(36) primary key, `Type` text not null, `Body` text, `At` datetime(6) not null,
               `SentAt` datetime(6), `Attempts` int not null default 0, `Error` text)";
    sqlx::raw_sql(ddl).execute(&pool).await.unwrap();
    let ran = program.run(&["doctor", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(ran.stdout.contains("table 'Events' is as the mapping says"), "{ran:#?}");
}

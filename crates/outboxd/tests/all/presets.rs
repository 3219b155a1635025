//! The presets against tables as their libraries make and fill them: what goes out, and what the row says afterwards.
//! `ticketflow` and `prisma` are the examples, and have their own tests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool, Row};
use testbed::Database;

use crate::init_from::{CAP, DEBEZIUM, MASSTRANSIT};
use crate::program::Program;

const EFCORE: &str = r#"
CREATE TABLE "OutboxMessages" (
    "Id" uuid NOT NULL, "Type" text NOT NULL, "Content" text NOT NULL,
    "OccurredOnUtc" timestamp with time zone NOT NULL, "ProcessedOnUtc" timestamp with time zone NULL,
    "Error" text NULL, CONSTRAINT "PK_OutboxMessages" PRIMARY KEY ("Id"));"#;

const ID: &str = "0198c0de-0000-7000-8000-000000000001";

/// A layout, a row in it, and what is expected of both ends.
struct Case {
    preset: &'static str,
    ddl: &'static str,
    row: &'static str,
    /// All members of the line but `specversion`, `source` and the body.
    line: Value,
    headers: Value,
    /// The body, to the last space.
    body: &'static str,
    /// Whether the row is marked as its library would mark it.
    marked: &'static str,
}

/// The serializer of MassTransit indents.
const ENVELOPE: &str = "{\n  \"messageType\": [\n    \"urn:message:Contracts:OrderSubmitted\"\n  ],\n  \"message\": {\n    \"total\": 1.10\n  }\n}";

fn cases() -> [Case; 4] {
    [
        Case {
            preset: "efcore",
            ddl: EFCORE,
            row: r#"insert into "OutboxMessages" values ('0198c0de-0000-7000-8000-000000000001', 'Shop.Orders.OrderCreated',
                '{"OrderId":7, "Total":1.10}', '2026-01-02 03:04:05.123456+00', null, null)"#,
            line: json!({
                "id": ID, "type": "Shop.Orders.OrderCreated", "time": "2026-01-02T03:04:05.123456Z",
                "datacontenttype": "application/json",
            }),
            headers: Value::Null,
            body: r#"{"OrderId":7, "Total":1.10}"#,
            marked: r#"select count(*) = 1 from "OutboxMessages" where "Error" is null
                and "ProcessedOnUtc" between now() - interval '1 minute' and now()"#,
        },
        Case {
            preset: "debezium",
            ddl: DEBEZIUM,
            row: r#"insert into outboxevent values ('0198c0de-0000-7000-8000-000000000001', 'order', 'order-7', 'OrderCreated',
                '{"total":1.10}')"#,
            line: json!({
                "id": ID, "type": "OrderCreated", "partitionkey": "order-7", "datacontenttype": "application/json",
            }),
            headers: json!({ "aggregatetype": "order", "id": ID }),
            // As jsonb writes it.
            body: r#"{"total": 1.10}"#,
            marked: "select count(*) = 0 from outboxevent",
        },
        Case {
            preset: "cap",
            ddl: CAP,
            row: r#"insert into "cap"."published" values (7001, 'v1', 'orders.created',
                '{"Headers":{"cap-callback-name":null,"cap-msg-id":"7001","cap-msg-name":"orders.created","cap-corr-seq":"0"},"Value":{"Total":1.10}}',
                0, '2026-01-02 03:04:05', null, 'Scheduled')"#,
            line: json!({
                "id": "7001", "type": "orders.created", "time": "2026-01-02T03:04:05Z",
                "datacontenttype": "application/json",
            }),
            headers: json!({ "cap-msg-id": "7001", "cap-msg-name": "orders.created", "cap-corr-seq": "0" }),
            body: r#"{"Total":1.10}"#,
            marked: r#"select count(*) = 1 from "cap"."published" where "StatusName" = 'Succeeded' and "Retries" = 0
                and "ExpiresAt" is not null"#,
        },
        Case {
            preset: "masstransit",
            ddl: MASSTRANSIT,
            row: r#"insert into "OutboxState" values ('0198c0de-0000-7000-8000-00000000000a', gen_random_uuid(), null, now());
                insert into "OutboxMessage" ("EnqueueTime", "SentTime", "Headers", "Properties", "OutboxId", "MessageId",
                    "ContentType", "MessageType", "Body", "ConversationId", "CorrelationId", "DestinationAddress")
                values (now(), '2026-01-02 03:04:05+00', '{"tenant":"blue","try":2}', '{}',
                    '0198c0de-0000-7000-8000-00000000000a', '0198c0de-0000-7000-8000-000000000001',
                    'application/vnd.masstransit+json', 'urn:message:Contracts:OrderSubmitted', 'ENVELOPE',
                    '0198c0de-0000-7000-8000-00000000000b', '0198c0de-0000-7000-8000-00000000000c',
                    'rabbitmq://localhost/Contracts:OrderSubmitted');
                insert into "OutboxMessage" ("SentTime", "InboxMessageId", "InboxConsumerId", "MessageId", "ContentType",
                    "MessageType", "Body")
                values (now(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(),
                    'application/vnd.masstransit+json', 'urn:message:Contracts:OfAConsumer', '{}')"#,
            line: json!({
                "id": ID, "type": "urn:message:Contracts:OrderSubmitted", "time": "2026-01-02T03:04:05Z",
                "partitionkey": "0198c0de-0000-7000-8000-00000000000a",
                "correlationid": "0198c0de-0000-7000-8000-00000000000c",
                "datacontenttype": "application/vnd.masstransit+json",
            }),
            headers: json!({
                "tenant": "blue", "try": "2", "ConversationId": "0198c0de-0000-7000-8000-00000000000b",
                "DestinationAddress": "rabbitmq://localhost/Contracts:OrderSubmitted",
            }),
            body: ENVELOPE,
            // What a consumer wrote is its receive endpoint's.
            marked: r#"select array_agg("MessageType") = '{urn:message:Contracts:OfAConsumer}' from "OutboxMessage""#,
        },
    ]
}

async fn database(ddl: &str) -> Option<(Database, PgPool)> {
    let database = testbed::postgres().await?.database().await.unwrap();
    let pool = PgPool::connect(database.url()).await.unwrap();
    execute(&pool, ddl).await;
    Some((database, pool))
}

async fn execute(pool: &PgPool, sql: &str) {
    let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn program(database: &Database, mapping: &str, more: &str) -> Program {
    Program::with(&format!(
        "[connections]\ndb = \"{}\"\n[sources.events]\non = \"db\"\n{mapping}\n[sinks.lines]\nfile = \"out/lines.jsonl\"\n\
         [pipes.relay]\nfrom = \"events\"\nto = \"lines\"\npoll = \"20ms\"\n{more}\n",
        database.url()
    ))
}

fn lines(program: &Program) -> Vec<String> {
    program.read("out/lines.jsonl").lines().map(str::to_owned).collect()
}

/// The body of a line: JSON as it stands there, or what does not fit on a line.
fn body(line: &str) -> String {
    match line.split_once(",\"data\":") {
        Some((_, body)) => body.strip_suffix('}').unwrap().to_owned(),
        None => {
            let line: Value = serde_json::from_str(line).unwrap();
            String::from_utf8(BASE64.decode(line["data_base64"].as_str().unwrap()).unwrap()).unwrap()
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_each_library_goes_out_whole_and_is_marked_as_the_library_would() {
    for case in cases() {
        let name = case.preset;
        let Some((database, pool)) = database(case.ddl).await else { return };
        execute(&pool, &case.row.replace("ENVELOPE", ENVELOPE)).await;
        let program = program(&database, &format!("preset = \"{name}\""), "");
        program.make_folder("out");
        program.ok(&["run", "--once"]);
        let lines = lines(&program);
        assert_eq!(lines.len(), 1, "{name}: {lines:#?}");
        let mut line: Value = serde_json::from_str(&lines[0]).unwrap();
        let members = line.as_object_mut().unwrap();
        let headers =
            members.remove("headers").map(|text| serde_json::from_str(text.as_str().unwrap()).unwrap());
        assert_eq!(headers.unwrap_or(Value::Null), case.headers, "{name}");
        members.retain(|name, _| !["specversion", "source", "data", "data_base64"].contains(&name.as_str()));
        if case.line.get("time").is_none() {
            assert!(members.remove("time").is_some(), "{name}");
        }
        assert_eq!(line, case.line, "{name}");
        assert_eq!(body(&lines[0]), case.body, "{name}");
        let marked: bool = sqlx::query_scalar(case.marked).fetch_one(&pool).await.unwrap();
        assert!(marked, "{name}");
        program.ok(&["run", "--once"]);
        assert_eq!(self::lines(&program).len(), 1, "{name}: nothing is sent again");
    }
}

/// Every attempt is written as CAP writes it, and fifty are the end.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_delivered_is_failed_as_cap_says_it() {
    let Some((database, pool)) = database(CAP).await else { return };
    for (id, retries) in [(1, 0), (2, 49), (3, 50)] {
        let sql = format!(
            r#"insert into "cap"."published" values ({id}, 'v1', 'orders.created', '{{"Headers":{{}},"Value":{id}}}', {retries},
               localtimestamp, null, 'Scheduled')"#
        );
        execute(&pool, &sql).await;
    }
    // One attempt for each: the next is not due within this run. The folder of the file is missing.
    let program = program(
        &database,
        "preset = \"cap\"",
        "outage = \"count\"\nretry_first = \"1h\"\nretry_most = \"1h\"",
    );
    program.run(&["run", "--once"]);
    let rows = r#"select "Retries", "StatusName", "ExpiresAt" is null from "cap"."published" order by "Id""#;
    let rows = sqlx::query(rows).fetch_all(&pool).await.unwrap();
    let rows: Vec<(i32, String, bool)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let row = |retries: i32, status: &str| (retries, status.to_owned(), true);
    assert_eq!(rows, [row(1, "Failed"), row(50, "Failed"), row(50, "Scheduled")]);
    let dead = program.json(&["list", "--state", "dead"]);
    let dead: Vec<_> = dead["messages"].as_array().unwrap().iter().map(|message| &message["id"]).collect();
    assert_eq!(dead, ["2", "3"]);
    // What has attempts left goes out when it can, and keeps their count.
    program.make_folder("out");
    program.ok(&["run", "--once"]);
    assert_eq!(lines(&program).len(), 1);
    let first = r#"select "StatusName" || ' ' || "Retries" from "cap"."published" where "Id" = 1"#;
    let first: String = sqlx::query_scalar(first).fetch_one(&pool).await.unwrap();
    assert_eq!(first, "Succeeded 1");
    assert_eq!(program.ok(&["retry", "--yes"]), "2 messages due again\n");
    program.ok(&["run", "--once"]);
    assert_eq!(lines(&program).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_tables_is_one_source() {
    let Some((database, pool)) = database("").await else { return };
    for table in ["A", "B", "C"] {
        let ddl = format!(
            r#"create table "{table}" ("Id" bigserial primary key, "Type" text not null, "Body" text not null, "SentAt" timestamptz);
               insert into "{table}" ("Type", "Body") values ('{table}.first', '1'), ('{table}.second', '2')"#
        );
        execute(&pool, &ddl).await;
    }
    let mapping = "tables = [\"A\", \"B\"]\nid = \"Id\"\ntype = \"Type\"\npayload = \"Body\"\norder_by = \"Id\"\n\
        pending = \"SentAt IS NULL\"\ndone = \"SentAt = now\"";
    let program = program(&database, mapping, "");
    program.make_folder("out");
    program.ok(&["run", "--once"]);
    let mut types: Vec<String> = lines(&program)
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned())
        .collect();
    types.sort();
    assert_eq!(types, ["A.first", "A.second", "B.first", "B.second"]);
    let sent = r#"select (select count("SentAt") from "A"), (select count("SentAt") from "B"), (select count("SentAt") from "C")"#;
    let sent: (i64, i64, i64) = sqlx::query_as(sent).fetch_one(&pool).await.unwrap();
    assert_eq!(sent, (2, 2, 0), "the table that is not listed is left alone");
}

//! `doctor`: what it finds, the fixes that it prints, and how it ends. The printed statements are run as they stand.

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use testbed::{Database, PgBouncer};

use crate::program::{Program, RELAY};

pub const TICKETFLOW: &str = r#"
create table "OutboxMessages" (
    "Id" uuid primary key, "Type" text not null, "PayloadJson" text not null, "CorrelationId" uuid,
    "OccurredAt" timestamptz not null, "DispatchedAt" timestamptz, "Attempts" integer not null default 0, "Error" text);
create table "ProcessedEvents" ("EventId" uuid primary key, "ProcessedAt" timestamptz not null);"#;

pub async fn run_sql(database: &Database, sql: &str) {
    let mut conn = PgConnection::connect(database.url()).await.unwrap();
    conn.execute(AssertSqlSafe(sql)).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    conn.close().await.unwrap();
}

fn tickets(url: &str, more: &str) -> String {
    format!(
        "[connections]\nshop = \"{url}\"\n[sources.tickets]\non = \"shop\"\npreset = \"ticketflow\"\n{more}\n\
         [sinks.screen]\nstdout = true\n[pipes.relay]\nfrom = \"tickets\"\nto = \"screen\"\n"
    )
}

/// The findings about one thing, and how it ended.
pub fn findings(program: &Program, args: &[&str]) -> (i32, Vec<Value>) {
    let mut all = vec!["doctor", "--format", "json"];
    all.extend(args);
    let ran = program.run(&all);
    let told: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:#?}"));
    (ran.code, told["findings"].as_array().unwrap().clone())
}

pub fn about<'f>(findings: &'f [Value], what: &str) -> Vec<&'f Value> {
    findings.iter().filter(|finding| finding["what"] == what).collect()
}

pub fn the<'f>(findings: &'f [Value], what: &str) -> &'f Value {
    match about(findings, what)[..] {
        [one] => one,
        _ => panic!("not one finding about '{what}': {findings:#?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_missing_index_is_printed_and_once_made_all_is_well() {
    let Some(postgres) = testbed::postgres().await else { return };
    let database = postgres.database().await.unwrap();
    run_sql(&database, TICKETFLOW).await;
    let fill = r#"insert into "OutboxMessages" select gen_random_uuid(), 'ticket.created', '{}', null,
        now() - i * interval '1 second', case when i > 50 then now() end, 0, null from generate_series(1, 9000) i"#;
    run_sql(&database, fill).await;
    run_sql(&database, "analyze").await;
    let program = Program::with(&tickets(database.url(), ""));
    let (code, found) = findings(&program, &[]);
    assert_eq!(code, 0, "a warning is no failure: {found:#?}");
    let index = the(&found, "claim index");
    assert_eq!(index["level"], "warning", "{index}");
    assert!(index["evidence"].as_str().unwrap().contains("about 9000 rows"), "{index}");
    let fix = index["fix"].as_str().unwrap();
    assert!(
        fix.starts_with("CREATE INDEX CONCURRENTLY ON \"OutboxMessages\" (\"OccurredAt\", \"Id\")"),
        "{fix}"
    );
    assert_eq!(findings(&program, &["--deny-warnings"]).0, 6);
    let shown = program.run(&["doctor"]);
    assert!(shown.stdout.contains(&format!("    {fix}\n")), "the fix is a line to copy: {}", shown.stdout);
    assert!(shown.stderr.contains("1 warning, 0 failures"), "{}", shown.stderr);
    run_sql(&database, fix).await;
    let (code, found) = findings(&program, &["--deny-warnings"]);
    assert_eq!(code, 0, "{found:#?}");
    for what in
        ["connection", "encryption", "version", "clock", "columns", "id", "claim index", "session", "dead"]
    {
        assert_eq!(the(&found, what)["level"], "ok", "{found:#?}");
    }
    assert!(
        the(&found, "pending")["evidence"].as_str().unwrap().starts_with("50, the oldest for "),
        "{found:#?}"
    );
}

/// An index that only gives the order leads through everything that was ever sent.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_over_what_is_done_is_not_enough() {
    let Some(postgres) = testbed::postgres().await else { return };
    let database = postgres.database().await.unwrap();
    run_sql(&database, TICKETFLOW).await;
    run_sql(&database, r#"create index occurred on "OutboxMessages" ("OccurredAt")"#).await;
    let program = Program::with(&tickets(database.url(), ""));
    let (_, found) = findings(&program, &[]);
    let index = the(&found, "claim index");
    assert!(index["evidence"].as_str().unwrap().contains("walks over the rows that are done"), "{index}");
    run_sql(&database, index["fix"].as_str().unwrap()).await;
    assert_eq!(the(&findings(&program, &[]).1, "claim index")["level"], "ok");
}

/// Every layout that is known, with each kind of claim: the statement that is printed must be the right one.
#[tokio::test(flavor = "multi_thread")]
async fn the_index_of_any_mapping_serves_its_claim() {
    let Some(postgres) = testbed::postgres().await else { return };
    let stamp = "table = \"OutboxEvents\"\nid = \"Id\"\ntype = \"EventType\"\npayload = \"EventData\"\n\
        occurred_at = \"CreatedAt\"\npending = \"IsProcessed = false AND RetryCount < 3\"\n\
        done = \"IsProcessed = true, ProcessedAt = now\"\nattempts = \"RetryCount\"\nstamp = \"ProcessingStartedAt\"";
    // With what is said before anything is made. Where a row that is done is removed, the primary key serves.
    for (sql, mapping, before) in [
        (crate::init_from::PRISMA, "preset = \"prisma\"", "warning"),
        (crate::init_from::CAP, "preset = \"cap\"", "warning"),
        (crate::init_from::DEBEZIUM, "preset = \"debezium\"", "ok"),
        (crate::init_from::MASSTRANSIT, "preset = \"masstransit\"", "ok"),
        (crate::init_from::ECOMMERCE, stamp, "warning"),
    ] {
        let database = postgres.database().await.unwrap();
        run_sql(&database, sql).await;
        let config = tickets(database.url(), "").replace("preset = \"ticketflow\"", mapping);
        let program = Program::with(&config);
        let (code, found) = findings(&program, &[]);
        assert_eq!(code, 0, "{mapping}: {found:#?}");
        let index = the(&found, "claim index");
        assert_eq!(index["level"], before, "{mapping}: {index:#}");
        if before == "warning" {
            run_sql(&database, index["fix"].as_str().unwrap()).await;
        }
        let (_, found) = findings(&program, &[]);
        assert_eq!(the(&found, "claim index")["level"], "ok", "{mapping}: {found:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_missing_grants_are_printed_and_once_given_all_is_well() {
    let Some(postgres) = testbed::postgres().await else { return };
    let database = postgres.database().await.unwrap();
    run_sql(&database, TICKETFLOW).await;
    let role = format!("doctor_{}", std::process::id());
    run_sql(
        &database,
        &format!("create role {role} login password 'canary'; grant usage on schema public to {role}"),
    )
    .await;
    let url = database.url().replacen("postgres@", &format!("{role}:canary@"), 1);
    let program = Program::with(&tickets(&url, ""));
    let (code, found) = findings(&program, &[]);
    assert_eq!(code, 4, "{found:#?}");
    let grants = about(&found, "grants");
    let fixes: Vec<&str> = grants.iter().filter_map(|finding| finding["fix"].as_str()).collect();
    assert_eq!(
        fixes,
        [
            format!("GRANT SELECT, UPDATE ON \"OutboxMessages\" TO {role};"),
            format!("GRANT SELECT, INSERT ON \"ProcessedEvents\" TO {role};")
        ]
    );
    assert!(about(&found, "claim index").is_empty(), "what may not be read cannot be planned");
    for fix in fixes {
        run_sql(&database, fix).await;
    }
    let (code, found) = findings(&program, &[]);
    assert_eq!(code, 0, "{found:#?}");
    let told = format!("{:?}", program.run(&["doctor", "-vv"]));
    assert!(!told.contains("canary"), "{told}");
    run_sql(&database, &format!("drop owned by {role}; drop role {role}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapping_that_does_not_fit_hides_nothing_else() {
    let Some(postgres) = testbed::postgres().await else { return };
    let database = postgres.database().await.unwrap();
    run_sql(&database, TICKETFLOW).await;
    run_sql(&database, r#"alter table "OutboxMessages" drop constraint "OutboxMessages_pkey""#).await;
    let program = Program::with(&tickets(database.url(), "payload = \"Payload\"\nerror = \"Attempt\""));
    let (code, found) = findings(&program, &[]);
    assert_eq!(code, 4);
    let misfits: Vec<_> =
        about(&found, "columns").iter().map(|one| one["evidence"].as_str().unwrap()).collect();
    assert_eq!(misfits.len(), 2, "{found:#?}");
    assert!(misfits[0].starts_with("payload: table 'OutboxMessages' has no column 'Payload'"), "{misfits:?}");
    assert_eq!(the(&found, "id")["level"], "warning", "{found:#?}");
    assert!(about(&found, "grants").iter().all(|finding| finding["level"] == "ok"), "{found:#?}");
    run_sql(&database, the(&found, "id")["fix"].as_str().unwrap()).await;
    run_sql(&database, r#"alter table "OutboxMessages" alter "Id" set not null"#).await;
    assert_eq!(the(&findings(&program, &[]).1, "id")["level"], "ok");
    let program = Program::with(&tickets(database.url(), "table = \"Nothing\""));
    let (_, found) = findings(&program, &[]);
    assert!(the(&found, "columns")["evidence"].as_str().unwrap().contains("there is no table 'Nothing'"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_in_the_way_of_a_lock_is_found() {
    let Some(postgres) = testbed::postgres().await else { return };
    let Some(pooler) = testbed::available(PgBouncer::start(postgres).await) else { return };
    let database = postgres.database().await.unwrap();
    run_sql(&database, TICKETFLOW).await;
    let name = database.url().rsplit('/').next().unwrap().to_owned();
    let program = Program::with(&tickets(&pooler.url(&name), ""));
    let (code, found) = findings(&program, &[]);
    assert_eq!(code, 4);
    let session = the(&found, "session");
    assert_eq!(session["level"], "failure", "{found:#?}");
    assert!(session["evidence"].as_str().unwrap().contains("a pooler"), "{session}");
    let program = Program::with(&tickets(database.url(), ""));
    assert_eq!(the(&findings(&program, &[]).1, "session")["level"], "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_changed_by_a_look() {
    let Some(postgres) = testbed::postgres().await else { return };
    let database = postgres.database().await.unwrap();
    run_sql(&database, TICKETFLOW).await;
    run_sql(
        &database,
        r#"insert into "OutboxMessages" values (gen_random_uuid(), 't', '{}', null, now(), null, 0, null)"#,
    )
    .await;
    // Whoever writes gets an error, and the finding would be a failure.
    let name = database.url().rsplit('/').next().unwrap().to_owned();
    run_sql(&database, &format!("alter database \"{name}\" set default_transaction_read_only = on")).await;
    let (code, found) = findings(&Program::with(&tickets(database.url(), "")), &[]);
    assert_eq!(code, 0, "{found:#?}");
    assert!(the(&found, "pending")["evidence"].as_str().unwrap().starts_with("1, "), "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_looked_at_too() {
    let Some(postgres) = testbed::postgres().await else { return };
    let database = postgres.database().await.unwrap();
    let config = tickets(database.url(), "").replace("preset = \"ticketflow\"\n", "");
    let program = Program::with(&config);
    let (code, found) = findings(&program, &[]);
    assert_eq!(code, 4);
    assert_eq!(the(&found, "tables")["fix"], "outboxd migrate", "{found:#?}");
    program.ok(&["migrate"]);
    let (code, found) = findings(&program, &["--deny-warnings"]);
    assert_eq!(code, 0, "{found:#?}");
    assert_eq!(
        (the(&found, "tables")["level"].as_str(), the(&found, "grants")["level"].as_str()),
        (Some("ok"), Some("ok"))
    );
}

#[test]
fn one_broken_server_does_not_hide_the_others() {
    let broken = "[connections]\nshop = \"sqlite:shop.db\"\naway = \"postgres://app:canary@127.0.0.1:1/shop\"\n\
        rabbit = \"amqp://guest:canary@127.0.0.1:1\"\n[sources.orders]\non = \"shop\"\n[sources.other]\non = \"away\"\n\
        [sinks.events]\non = \"rabbit\"\nexchange = \"e\"\n[sinks.screen]\nstdout = true\n";
    let program = Program::with(broken);
    program.ok(&["migrate", "--source", "orders"]);
    let (code, found) = findings(&program, &[]);
    assert_eq!(code, 4);
    let level = |name: &str| {
        let levels = found.iter().filter(|finding| finding["name"] == name);
        levels.map(|finding| finding["level"].as_str().unwrap().to_owned()).max().unwrap()
    };
    assert_eq!([level("orders"), level("screen")], ["ok", "ok"], "{found:#?}");
    let of = |name: &str| found.iter().find(|finding| finding["name"] == name).unwrap().clone();
    assert_eq!(
        (of("other")["level"].as_str(), of("events")["level"].as_str()),
        (Some("failure"), Some("failure"))
    );
    assert!(!format!("{found:?}{:?}", program.run(&["doctor"])).contains("canary"));
    assert_eq!(findings(&program, &["--source", "orders"]).0, 0);
    assert_eq!(findings(&program, &["--sink", "events"]).0, 5);
    assert_eq!(program.run(&["doctor", "--sink", "event"]).only_error(2).1, "did you mean 'events'?");
}

#[test]
fn a_file_out_of_reach_is_a_failure_with_its_fix() {
    let program = Program::with(RELAY);
    let (code, found) = findings(&program, &[]);
    assert_eq!(code, 4);
    assert!(found[0]["evidence"].as_str().unwrap().starts_with("there is no file"), "{found:#?}");
    program.ok(&["migrate"]);
    let (code, found) = findings(&program, &[]);
    assert_eq!(code, 5, "{found:#?}");
    let of_sink = found.iter().rfind(|finding| finding["place"] == "sink").unwrap();
    let fix = of_sink["fix"].as_str().unwrap();
    assert!(fix.starts_with("mkdir -p '"), "{fix}");
    program.make_folder("out");
    assert_eq!(findings(&program, &[]).0, 0);
    assert!(!program.path("out/lines.jsonl").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_is_looked_at_and_a_probe_tells_whether_it_leads_anywhere() {
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let vhost = rabbitmq.vhost().await.unwrap();
    let config = |more: &str| {
        format!(
            "[connections]\nshop = \"sqlite:shop.db\"\nrabbit = \"{}\"\n[sources.orders]\non = \"shop\"\n\
             [sinks.events]\non = \"rabbit\"\nexchange = \"shop.events\"\n{more}\n\
             [pipes.relay]\nfrom = \"orders\"\nto = \"events\"\n",
            vhost.url()
        )
    };
    let queues = "queues = [{ name = \"billing\", keys = [\"order.*\"], type = \"classic\" }]";
    let program = Program::migrated(&config("topology = \"check\""));
    let (code, found) = findings(&program, &["--sink", "events"]);
    assert_eq!((code, the(&found, "exchange")["level"].as_str()), (5, Some("failure")), "{found:#?}");
    assert!(the(&found, "exchange")["evidence"].as_str().unwrap().contains("does not exist"), "{found:#?}");
    // Not there yet, and a look does not make it.
    program.write("outboxd.toml", &config(queues));
    for _ in 0..2 {
        let (code, found) = findings(&program, &["--sink", "events"]);
        assert_eq!(code, 0, "{found:#?}");
        for what in ["exchange", "queue"] {
            assert!(
                the(&found, what)["evidence"].as_str().unwrap().contains("is not there yet"),
                "{found:#?}"
            );
        }
    }
    program.send("a");
    program.ok(&["run", "--once"]);
    let (_, found) = findings(&program, &["--sink", "events"]);
    assert!(
        the(&found, "queue")["evidence"].as_str().unwrap().contains("as configured, 1 messages"),
        "{found:#?}"
    );
    assert!(the(&found, "route")["evidence"].as_str().unwrap().starts_with("not probed"), "{found:#?}");
    // The types come from the source, or are named.
    let (code, found) = findings(&program, &["--sink", "events", "--probe"]);
    assert_eq!(code, 0, "{found:#?}");
    assert!(the(&found, "route")["evidence"].as_str().unwrap().contains("'order.created'"), "{found:#?}");
    let counted = rabbitmq.ctl(&["list_queues", "-q", "-p", vhost.name(), "name", "messages"]).await.unwrap();
    assert!(counted.lines().any(|line| line.split_whitespace().eq(["billing", "2"])), "{counted}");
    let (code, found) = findings(&program, &["--sink", "events", "--probe", "--type", "invoice.sent"]);
    assert_eq!(code, 5, "{found:#?}");
    assert!(
        the(&found, "route")["evidence"].as_str().unwrap().contains("no queue is bound for it"),
        "{found:#?}"
    );
    // Another kind than the one that is there.
    program.write("outboxd.toml", &config("kind = \"fanout\""));
    let (code, found) = findings(&program, &["--sink", "events"]);
    assert_eq!(code, 5);
    assert!(
        the(&found, "exchange")["evidence"].as_str().unwrap().contains("not as configured"),
        "{found:#?}"
    );
    // A login that is refused.
    let url = vhost.url().replacen("://", "://nobody:canary@", 1);
    let url = url.rsplit_once('@').map(|(_, host)| format!("amqp://nobody:canary@{host}")).unwrap();
    program.write("outboxd.toml", &config("").replace(vhost.url(), &url));
    let (code, found) = findings(&program, &["--sink", "events"]);
    assert_eq!((code, found.len()), (5, 1), "{found:#?}");
    assert!(!format!("{found:?}").contains("canary"));
}

fn to_kafka(url: &str, topic: &str) -> String {
    format!(
        "[connections]\nshop = \"sqlite:shop.db\"\nkafka = \"{url}\"\n[sources.orders]\non = \"shop\"\n\
         [sinks.events]\non = \"kafka\"\ntopic = \"{topic}\"\ntimeout = \"5s\"\n\
         [pipes.relay]\nfrom = \"orders\"\nto = \"events\"\n"
    )
}

#[cfg(not(feature = "kafka"))]
#[test]
fn without_kafka_a_topic_cannot_be_looked_at() {
    let program = Program::migrated(&to_kafka("kafka://localhost:1", "orders"));
    let (code, found) = findings(&program, &["--sink", "events"]);
    assert_eq!(code, 5);
    assert_eq!(the(&found, "connection")["fix"], "build it with --features kafka", "{found:#?}");
}

#[cfg(feature = "kafka")]
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_missing_is_told_with_the_way_to_make_it() {
    let Some(kafka) = testbed::kafka().await else { return };
    let topic = kafka.topic(1).await.unwrap();
    let program = Program::migrated(&to_kafka(&kafka.url(), &topic));
    let (code, found) = findings(&program, &["--sink", "events"]);
    assert_eq!(code, 0, "{found:#?}");
    assert_eq!(the(&found, "topic")["level"], "ok");
    let program = Program::migrated(&to_kafka(&kafka.url(), "missing.{type}"));
    program.send("a");
    for (args, name) in [
        (&["--sink", "events"][..], "missing.order.created"),
        (&["--sink", "events", "--type", "x"], "missing.x"),
    ] {
        let (code, found) = findings(&program, args);
        assert_eq!(code, 5, "{found:#?}");
        let fix = the(&found, "topic")["fix"].as_str().unwrap();
        assert!(fix.ends_with(&format!("--create --topic '{name}'")), "{fix}");
    }
    let program = Program::migrated(&to_kafka("kafka://127.0.0.1:1", "orders"));
    let (code, found) = findings(&program, &["--sink", "events"]);
    assert_eq!((code, found.len()), (5, 1), "{found:#?}");
}

#[cfg(feature = "kafka")]
#[tokio::test(flavor = "multi_thread")]
async fn d3_an_inbox_that_forgets_before_the_topic_does_is_told_with_the_window_to_set() {
    let Some(kafka) = testbed::kafka().await else { return };
    if kafka.is_mock() {
        return testbed::skip("this needs an Apache Kafka");
    }
    let topic = testbed::Kafka::topic_name();
    let fortnight = (14 * 24 * 3_600_000_u64).to_string();
    kafka.create_topic(&topic, 1, &[("retention.ms", &fortnight)]).await.unwrap();
    let config = |window: &str| {
        format!(
            "[connections]\nshop = \"sqlite:shop.db\"\nkafka = \"{}\"\n\
             [sources.orders]\non = \"kafka\"\ntopics = [\"{topic}\"]\ngroup = \"g\"\n\
             [sinks.hook]\nhttp = \"http://127.0.0.1:1/\"\ninbox = \"shop\"\n{window}\n\
             [pipes.notify]\nfrom = \"orders\"\nto = \"hook\"\n",
            kafka.url()
        )
    };
    let program = Program::migrated(&config(""));
    let (_, found) = findings(&program, &["--source", "orders"]);
    let window = the(&found, "inbox window");
    assert_eq!(window["level"], "warning", "{found:#?}");
    assert_eq!(window["fix"], "[sinks.hook] inbox_window = \"14d\"", "{found:#?}");
    program.write("outboxd.toml", &config("inbox_window = \"14d\""));
    let (_, found) = findings(&program, &["--source", "orders"]);
    assert_eq!(the(&found, "inbox window")["level"], "ok", "{found:#?}");
}

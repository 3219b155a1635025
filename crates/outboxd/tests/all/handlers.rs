//! Handlers by configuration alone, straight from a log in SQLite: no server but the endpoint itself.

use serde_json::json;
use sqlx::{Connection as _, SqliteConnection};
use testbed::Smtp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::endpoint::Endpoint;
use crate::program::Program;

const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";

fn hook(url: &str, sink: &str, pipe: &str) -> String {
    format!(
        "[connections]\nshop = \"sqlite:shop.db\"\nhandled = \"sqlite:handled.db\"\n[sources.orders]\non = \"shop\"\n\
         [sinks.hook]\nhttp = \"{url}\"\n{sink}\n[pipes.notify]\nfrom = \"orders\"\nto = \"hook\"\npoll = \"10ms\"\n{pipe}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn d9_an_endpoint_gets_every_message_signed_and_with_its_headers() {
    let endpoint = Endpoint::start().await;
    let sink = format!("secret = \"{SECRET}\"\nheaders = {{ X-Team = \"{{header.team|none}}\" }}");
    let program = Program::migrated(&hook(&endpoint.url, &sink, ""));
    let ids = ["a", "b", "c"].map(|key| program.send(key));
    program.ok(&["run", "--once"]);
    let posted = endpoint.posted();
    let mut came: Vec<_> = posted.iter().map(|request| request.id.clone()).collect();
    came.sort();
    let mut sent = ids.to_vec();
    sent.sort();
    assert_eq!(came, sent);
    let first = &posted[0];
    assert_eq!(
        (first.body.as_str(), &first.headers["ce-type"]),
        ("{\"id\":1}", &"order.created".parse().unwrap())
    );
    assert_eq!(first.headers["x-team"], "none");
    assert!(first.headers["webhook-signature"].to_str().unwrap().starts_with("v1,"), "{first:#?}");
    assert_eq!(first.headers["idempotency-key"].to_str().unwrap(), first.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn d5_what_an_endpoint_rejects_is_tried_again_as_listed_and_then_dead() {
    let endpoint = Endpoint::start().await;
    let program = Program::migrated(&hook(&endpoint.url, "", "retry = [\"20ms\", \"20ms\"]"));
    endpoint.answer(&[503, 500]);
    let good = program.send("a");
    let mut running = program.start(&["run"]);
    assert!(endpoint.wait_for(3).await.iter().all(|request| request.id == good));
    endpoint.answer(&[500, 500, 500]);
    let bad = program.send("b");
    running.wait_for("HTTP_500");
    endpoint.wait_for(6).await;
    endpoint.answer(&[404]);
    let refused = program.send("c");
    endpoint.wait_for(7).await;
    running.wait_for("HTTP_404");
    running.signal("TERM");
    assert_eq!(running.end().0, 0);
    let cause = |id: &str| {
        let shown = program.json(&["show", id]);
        (
            shown["pipes"][0]["state"].clone(),
            shown["pipes"][0]["attempts"].clone(),
            shown["pipes"][0]["cause"]["code"].clone(),
        )
    };
    assert_eq!(cause(&bad), (json!("dead"), json!(3), json!("HTTP_500")));
    assert_eq!(
        cause(&refused),
        (json!("dead"), json!(1), json!("HTTP_404")),
        "what cannot help is not tried again"
    );
    assert_eq!(cause(&good).0, json!("done"));
}

#[tokio::test(flavor = "multi_thread")]
async fn d3_what_comes_again_does_not_reach_the_endpoint_again() {
    let endpoint = Endpoint::start().await;
    let second = "[pipes.second]\nfrom = \"orders\"\nto = \"hook\"\npoll = \"10ms\"";
    let program = Program::with(&hook(&endpoint.url, "inbox = \"handled\"", second));
    let migrated = program.json(&["migrate"]);
    assert_eq!(migrated["connections"][0]["connection"], "handled", "{migrated}");
    assert!(program.path("handled.db").exists());
    assert!(program.ok(&["migrate"]).contains("handled: up to date\n"));
    program.send("a");
    program.ok(&["run", "--once"]);
    assert_eq!(endpoint.posted().len(), 2, "each pipe is a consumer of its own");
    for pipe in ["notify", "second"] {
        program.ok(&["replay", "--pipe", pipe, "--from-start", "--yes"]);
    }
    program.ok(&["run", "--once"]);
    assert_eq!(endpoint.posted().len(), 2, "the inbox knows it");
    assert_eq!(program.json(&["status"])["pipes"][0]["pending"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn d4_a_pipe_whose_inbox_is_away_waits_and_the_others_go_on() {
    let endpoint = Endpoint::start().await;
    let plain = format!(
        "probe_first = \"20ms\"\nprobe_most = \"20ms\"\nattempts = 1\n[sinks.plain]\nhttp = \"{}\"\n\
         [pipes.plain]\nfrom = \"orders\"\nto = \"plain\"\npoll = \"10ms\"",
        endpoint.url
    );
    let program = Program::with(&hook(&endpoint.url, "inbox = \"handled\"", &plain));
    program.ok(&["migrate", "--source", "orders"]);
    assert!(!program.path("handled.db").exists());
    let id = program.send("a");
    let mut running = program.start(&["run"]);
    running.wait_for("there is no such file");
    assert_eq!(endpoint.wait_for(1).await.len(), 1, "only by the pipe without an inbox");
    let shown = program.json(&["show", &id]);
    let pipe = |name: &str| {
        shown["pipes"].as_array().unwrap().iter().find(|pipe| pipe["pipe"] == name).unwrap().clone()
    };
    assert_eq!(pipe("notify")["attempts"], 0, "nothing is charged: {shown}");
    program.ok(&["migrate"]);
    assert_eq!(endpoint.wait_for(2).await[1].id, id, "it goes on by itself");
    running.signal("TERM");
    assert_eq!(running.end().0, 0);
    let once = Program::with(&hook(&endpoint.url, "inbox = \"handled\"", ""));
    once.ok(&["migrate", "--source", "orders"]);
    once.send("a");
    let ran = once.run(&["run", "--once"]);
    assert_eq!(ran.code, 5, "{ran:#?}");
    assert!(ran.stderr.contains("run `outboxd migrate`"), "{ran:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d9_a_letter_goes_out_over_tls_with_a_login_once() {
    let Some(server) = testbed::available(Smtp::shared().await) else { return };
    let config = format!(
        "[connections]\nshop = \"sqlite:shop.db\"\n\
         post = {{ url = \"smtp://{}@localhost:{}\", password_file = \"password\" }}\n[sources.orders]\non = \"shop\"\n\
         [sinks.letters]\non = \"post\"\nfrom = \"Shop <shop@x.example>\"\nto = \"{{payload.email}}\"\n\
         subject = \"Order {{key}}\"\ntext = \"Hello {{payload.name|there}}\"\nhtml = \"<b>{{payload.name|there}}</b>\"\n\
         ca_file = \"{}\"\ninbox = \"shop\"\n\
         [pipes.mail]\nfrom = \"orders\"\nto = \"letters\"\npoll = \"10ms\"\n",
        Smtp::USER.replace('@', "%40"),
        server.starttls_port(),
        server.ca_file().display()
    );
    let program = Program::with(&config);
    program.write("password", &format!("{}\n", Smtp::PASSWORD));
    program.ok(&["migrate"]);
    assert!(program.ok(&["doctor", "--sink", "letters"]).contains("lets us in; nothing was sent"));
    let to = format!("{}@y.example", program.send("first"));
    let send =
        |key: &str, data: &str| program.ok(&["send", "--type", "order.paid", "--key", key, "--data", data]);
    send("o-1", &format!("{{\"email\":\"{to}\",\"name\":\"<Ana>\"}}"));
    let refused = send("o-2", "{\"email\":\"refused@y.example\"}");
    program.ok(&["run", "--once"]);
    program.ok(&["replay", "--pipe", "mail", "--from-start", "--yes"]);
    program.ok(&["run", "--once"]);
    let mails = server.mails(&to).unwrap();
    assert_eq!(mails.len(), 1, "the inbox knows it: {mails:#?}");
    assert!(mails[0].is_tls && mails[0].user.as_deref() == Some(Smtp::USER), "{mails:#?}");
    assert!(mails[0].content.contains("Subject: Order o-1"), "{mails:#?}");
    assert!(
        mails[0].content.contains("Hello <Ana>") && mails[0].content.contains("<b>&lt;Ana&gt;</b>"),
        "{mails:#?}"
    );
    let shown = program.json(&["show", refused.trim()]);
    assert_eq!(
        (&shown["pipes"][0]["state"], &shown["pipes"][0]["cause"]["code"]),
        (&json!("dead"), &json!("SMTP_550"))
    );
    program.write("password", "canary");
    let ran = program.run(&["doctor", "--sink", "letters"]);
    assert!(ran.code == 5 && !format!("{ran:?}").contains("canary"), "{ran:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d9_figures_of_messages_are_on_the_metrics_endpoint() {
    let program = Program::migrated(
        "[connections]\nshop = \"sqlite:shop.db\"\n[sources.orders]\non = \"shop\"\n[http]\nlisten = \"127.0.0.1:0\"\n\
         [sinks.counts]\ninbox = \"shop\"\nmetrics = [\n\
         { counter = \"orders_total\", labels = { country = \"{payload.country|none}\" }, types = [\"order.*\"] },\n\
         { histogram = \"order_amount\", value = \"{payload.total|0}\", buckets = [10, 100], types = [\"order.paid\"] }]\n\
         [pipes.count]\nfrom = \"orders\"\nto = \"counts\"\npoll = \"10ms\"\n",
    );
    let send = |kind: &str, data: &str| program.ok(&["send", "--type", kind, "--data", data]);
    send("order.paid", "{\"country\":\"PT\",\"total\":50}");
    send("order.paid", "{\"country\":\"PT\",\"total\":500}");
    send("order.created", "{}");
    send("invoice.sent", "{}");
    let mut running = program.start(&["run"]);
    let line = running.wait_for("127.0.0.1:");
    let address = line
        .split_once("127.0.0.1:")
        .map(|(_, port)| port.chars().take_while(char::is_ascii_digit).collect::<String>());
    let url = format!("127.0.0.1:{}", address.unwrap());
    running.wait_for("delivered=4");
    let shown = get(&url, "/metrics").await;
    for line in [
        "orders_total{country=\"PT\"} 2",
        "orders_total{country=\"none\"} 1",
        "order_amount_bucket{le=\"10\"} 0",
        "order_amount_bucket{le=\"100\"} 1",
        "order_amount_count 2",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}:\n{shown}");
    }
    running.signal("TERM");
    assert_eq!(running.end().0, 0);
}

/// The body of an answer.
async fn get(address: &str, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

pub async fn on_file(program: &Program, file: &str, sql: &'static str) -> Vec<(i64, String)> {
    let url = format!("sqlite://{}?mode=rwc", program.path(file).display());
    let mut conn = SqliteConnection::connect(&url).await.unwrap();
    let rows =
        sqlx::query_as(sql).fetch_all(&mut conn).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    conn.close().await.unwrap();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn d3_statements_take_effect_once_however_often_a_message_comes() {
    let program = Program::migrated(
        "[connections]\nshop = \"sqlite:shop.db\"\n[sources.orders]\non = \"shop\"\n[sinks.stock]\non = \"shop\"\n\
         sql = [\"INSERT INTO stock (sku) VALUES (:payload.sku)\", \"UPDATE total SET n = n + :payload.qty\"]\n\
         [pipes.stock]\nfrom = \"orders\"\nto = \"stock\"\npoll = \"10ms\"\nretry = [\"10ms\"]\n",
    );
    on_file(&program, "shop.db", "CREATE TABLE stock (sku TEXT NOT NULL UNIQUE)").await;
    on_file(&program, "shop.db", "CREATE TABLE total (n INTEGER)").await;
    on_file(&program, "shop.db", "INSERT INTO total VALUES (0)").await;
    let send = |data: &str| program.ok(&["send", "--type", "order.placed", "--data", data]).trim().to_owned();
    for data in ["{\"sku\":\"a\",\"qty\":2}", "{\"sku\":\"b\",\"qty\":3}"] {
        send(data);
    }
    let (twice, unfit, no_json) =
        (send("{\"sku\":\"a\",\"qty\":9}"), send("{\"sku\":\"c\"}"), send("nonsense"));
    program.ok(&["run", "--once"]);
    program.ok(&["replay", "--pipe", "stock", "--from-start", "--yes"]);
    program.ok(&["run", "--once"]);
    let total = on_file(&program, "shop.db", "SELECT n, '' FROM total").await;
    assert_eq!(total, [(5, String::new())], "each message that fits took effect once, whole or not at all");
    let skus =
        on_file(&program, "shop.db", "SELECT 0, group_concat(sku) FROM (SELECT sku FROM stock ORDER BY sku)")
            .await;
    assert_eq!(skus[0].1, "a,b");
    for (id, code) in [(twice, "REFUSED"), (unfit, "UNFIT"), (no_json, "UNFIT")] {
        let shown = program.json(&["show", &id]);
        assert_eq!(
            (&shown["pipes"][0]["state"], &shown["pipes"][0]["cause"]["code"]),
            (&json!("dead"), &json!(code)),
            "{shown}"
        );
    }
}

#[test]
fn a_database_that_is_only_an_inbox_keeps_the_limits_of_the_log_in_it() {
    let program = Program::with(
        "[connections]\nshop = \"sqlite:shop.db\"\n[sources.orders]\non = \"shop\"\nmax_payload = \"2MiB\"\n",
    );
    program.ok(&["migrate"]);
    program.write(
        "consumer.toml",
        "[connections]\nshop = \"sqlite:shop.db\"\nrabbit = \"amqp://localhost\"\n[sources.work]\non = \"rabbit\"\n\
         queue = \"q\"\n[sinks.hook]\nhttp = \"https://x.example/\"\ninbox = \"shop\"\n",
    );
    assert_eq!(program.ok(&["migrate", "--config", "consumer.toml"]), "shop: up to date\n");
    assert_eq!(program.ok(&["migrate"]), "orders: up to date\n", "the limits are as they were");
}

#[test]
fn d3_a_window_that_is_too_short_is_told_and_can_be_used() {
    let config = hook("https://x.example/", "inbox = \"handled\"\ninbox_window = \"1h\"", "");
    let program = Program::migrated(&config);
    let ran = program.run(&["validate"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(
        ran.stdout.contains("outboxd.toml is valid: 2 connections, 1 source, 1 sink, 1 pipe"),
        "{ran:#?}"
    );
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert!(
        lines[0].starts_with("warning: outboxd.toml:9:16: sinks.hook.inbox_window = \"1h\": is shorter"),
        "{ran:#?}"
    );
    assert_eq!(lines[1], "help: raise it to \"30d\" at least, or a message may be handled twice");
    let told = program.json(&["validate"]);
    assert_eq!((&told["valid"], told["warnings"].as_array().unwrap().len()), (&json!(true), 1), "{told}");
    assert!(
        program.run(&["run", "--once"]).stderr.contains("WARN outboxd.toml:9:16: sinks.hook.inbox_window")
    );
    let doctor = program.run(&["doctor", "--format", "json"]);
    assert!(doctor.stdout.contains("\"place\": \"config\""), "{doctor:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_looks_at_an_endpoint_and_its_inbox_and_posts_nothing() {
    let endpoint = Endpoint::start().await;
    let program = Program::with(&hook(&endpoint.url, "inbox = \"handled\"", ""));
    program.ok(&["migrate", "--source", "orders"]);
    let ran = program.run(&["doctor", "--sink", "hook"]);
    assert_eq!(ran.code, 5, "{ran:#?}");
    assert!(ran.stdout.contains("somebody listens; nothing was posted"), "{ran:#?}");
    assert!(
        ran.stdout.contains("there is no such file") && ran.stdout.contains("run `outboxd migrate`"),
        "{ran:#?}"
    );
    program.ok(&["migrate"]);
    assert!(program.ok(&["doctor"]).contains("there, and can be asked"));
    assert_eq!(endpoint.posted().len(), 0);
    drop(endpoint);
    let ran = program.run(&["doctor", "--sink", "hook"]);
    assert!(ran.code == 5 && ran.stdout.contains("cannot call http://127.0.0.1:"), "{ran:#?}");
}

//! A secret is in no output, wherever it stands, whatever is asked and whatever fails.

use std::process::Command;

use crate::api::scene::{Answer, Api, encoded};
use crate::collector::Collector;
use crate::program::{Program, RELAY, texts};

const CANARY: &str = "canary-7d1f";

fn config(url: &str) -> String {
    format!(
        "{}\n[sinks.events]\non = \"rabbit\"\nexchange = \"e\"\n[log]\nlevel = \"trace\"\n",
        RELAY.replace("[sources", &format!("rabbit = \"{url}\"\n[sources"))
    )
}

fn assert_clean(program: &Program, command: &mut Command) {
    let what = format!("{command:?}");
    let ran = Program::finish(command.env("SECRET", CANARY));
    assert!(!ran.stdout.contains(CANARY) && !ran.stderr.contains(CANARY), "{what}: {ran:#?}");
    for (path, text) in texts(&program.path("")) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_ours = name == "outboxd.toml" || name.starts_with("secret");
        assert!(is_ours || !text.contains(CANARY), "{what}: {}", path.display());
    }
}

#[test]
fn the_canary_is_in_no_output() {
    for url in [
        "amqp://app:${SECRET}@127.0.0.1:1",
        "amqp://app:canary-7d1f@127.0.0.1:1/%2f",
        "amqp://app:canary-7d1f@broker.example",
        "amqp://app:canary-7d1f@127.0.0.1:1\" # \\q",
        "postgres://app:canary-7d1f@127.0.0.1:port/shop",
        "mysql://app:canary-7d1f@127.0.0.1:1/shop?ssl-mode=never",
        "kafka://app:canary-7d1f@127.0.0.1:1,,",
        "kafka://app:canary-7d1f@127.0.0.1:1",
        "smtp://app:canary-7d1f@127.0.0.1:1",
        "amqp://app:canary-7d1f",
        "mongo://app:canary-7d1f@localhost",
        "${SECRET}",
        "canary-7d1f",
    ] {
        let program =
            Program::with(&config(url).replace("to = \"lines\"", "to = \"events\"").replace("count", "wait"));
        for args in [
            &["validate"][..],
            &["validate", "--format", "json"],
            &["config", "show"],
            &["config", "show", "--format", "json"],
            &["migrate", "-vv"],
            &["send", "--type", "t", "--data", "x", "-vv"],
            &["status"],
            &["run", "--once", "-vv"],
        ] {
            assert_clean(&program, &mut program.command(args));
        }
    }
}

#[test]
fn a_password_of_a_database_is_in_no_output_either() {
    let url = "{ url = \"postgres://app@127.0.0.1:1/shop\", password_file = \"secret\" }";
    let program = Program::with(&RELAY.replace("\"sqlite:shop.db\"", url));
    program.write("secret", &format!("{CANARY}\n"));
    for verb in ["validate", "migrate", "status"] {
        assert_clean(&program, &mut program.command(&[verb, "-vv"]));
    }
    let shown = program.ok(&["config", "show"]);
    assert!(shown.contains("postgres://app:***@127.0.0.1:1/shop"), "{shown}");
    assert_clean(&program, &mut program.command(&["run", "--once", "-vv"]));
}

const TOKEN: &str = "canary-7d1f-0123456789";
const WATCHER: &str = "watcher-0123456789";

/// A secret in every place that can have one; what is reached by network is not there, save for the two collectors.
fn everywhere(hook: &str, traces: &str) -> String {
    format!(
        r#"
[connections]
shop = "sqlite:shop.db"
pg = "postgres://app:{CANARY}@127.0.0.1:1/shop"
my = {{ url = "mysql://app@127.0.0.1:1/shop", password_file = "secret" }}
rabbit = "amqp://app:${{SECRET}}@127.0.0.1:1/%2f"
kafka = "kafka://app:{CANARY}@127.0.0.1:1"
post = {{ url_file = "secret_url" }}
[sources.orders]
on = "shop"
[sources.far]
on = "pg"
[sources.work]
on = "rabbit"
queue = "work"
[sinks.hook]
http = "http://me:{CANARY}@{hook}/{CANARY}?q={CANARY}"
secret = "whsec_{SIGNING}"
headers = {{ X-Api-Key = "{CANARY}", X-Tenant = "${{SECRET}}" }}
[sinks.events]
on = "rabbit"
exchange = "e"
[sinks.topic]
on = "kafka"
topic = "t"
[sinks.letters]
on = "post"
from = "shop@x.example"
to = "a@x.example"
subject = "s"
text = "t"
[sinks.errors]
on = "my"
error_log = true
[pipes.notify]
from = "orders"
to = "hook"
poll = "20ms"
[pipes.publish]
from = "orders"
to = "events"
[pipes.stream]
from = "orders"
to = "topic"
[pipes.mail]
from = "orders"
to = "letters"
[pipes.from_far]
from = "far"
to = "hook"
[pipes.failed]
from = "work"
to = "errors"
[audit]
on = "shop"
[alerts]
to = ["hook"]
every = "1s"
[traces]
endpoint = "http://me:{CANARY}@{traces}/{CANARY}?key={CANARY}"
headers = {{ X-Tenant = "{CANARY}" }}
[http]
listen = "127.0.0.1:0"
token = "{TOKEN}"
session_key = "{CANARY}-0123456789-0123456789-0123456789"
[http.people.anna]
role = "operator"
token_file = "secret_token"
[http.people.ben]
role = "viewer"
token = "{WATCHER}"
[log]
level = "trace"
"#
    )
}

fn with_secrets(hook: &Collector, traces: &Collector) -> Program {
    let place = |url: &str| url.strip_prefix("http://").unwrap().to_owned();
    let program = Program::with(&everywhere(&place(&hook.url), &place(&traces.url))).env("SECRET", CANARY);
    program.write("secret", &format!("{CANARY}\n"));
    program.write("secret_url", &format!("smtp://app:{CANARY}@127.0.0.1:1\n"));
    program.write("secret_token", &format!("annas-{CANARY}-0123456789\n"));
    program
}

/// In base64, and with the canary in it.
const SIGNING: &str = "canary7d1fcanary7d1fcanary7d1fcanary7d1f";

fn assert_none(what: &str, said: &str) {
    for secret in [CANARY, "canary7d1f", WATCHER] {
        assert!(!said.contains(secret), "{secret} in {what}: {said}");
    }
}

async fn ask(api: &Api, what: &str, lines: &str) -> Answer {
    let head = format!("{what} HTTP/1.1\r\nAuthorization: Bearer annas-{CANARY}-0123456789{lines}");
    let answer = api.ask(&head, b"").await;
    assert_none(what, &format!("{}\n{}", answer.head, answer.body));
    answer
}

/// Every GET of the document, with something that is there and something that is not.
async fn ask_every_route(api: &Api, id: &str) {
    let document = ask(api, "GET /v1/openapi.json", "").await.json();
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for id in [id, "nothing"] {
            let path = path.replace("{id}", id).replace("{source}", "work").replace("{table}", "errors");
            assert!(!path.contains('{') || methods["get"].is_null(), "{path}");
            if methods["get"].is_object() {
                ask(api, &format!("GET {path}"), "").await;
                asked += 1;
            }
        }
    }
    assert!(asked > 20, "{asked}");
    for filter in ["state:dead", "pipe:notify state:waiting", "nonsense"] {
        ask(api, &format!("GET /v1/messages?source=orders&filter={}", encoded(filter)), "").await;
    }
    ask(api, &format!("GET /v1/messages/{id}?source=orders&payload=true"), "").await;
}

async fn ask_every_page(api: &Api, id: &str) {
    let message = format!("/messages/orders/{id}");
    for path in [
        "/",
        "/pipes",
        "/queues",
        "/messages?source=orders",
        "/failures",
        "/failures/letters",
        "/failures/errors",
        "/doctor",
        "/audit",
        "/config",
        "/charts.json",
        "/login",
        "/nowhere",
        "/messages/orders/nothing",
        "/failures/errors/errors/1",
        &message,
    ] {
        let page = ask(api, &format!("GET {path}"), "\r\nAccept: text/html").await;
        assert!(page.status != 401 && page.status != 403, "{path}: {page:#?}");
    }
    ask(api, "POST /doctor", "\r\nAccept: text/html\r\nSec-Fetch-Site: same-origin").await;
    for path in ["/metrics", "/health", "/readyz", "/livez"] {
        ask(api, &format!("GET {path}"), "").await;
    }
}

/// In URL, file, variable and header: no log, page, metric, answer or trace has it.
#[tokio::test(flavor = "multi_thread")]
async fn e7_a_secret_in_every_place_is_on_no_page_and_in_no_answer_log_figure_or_trace() {
    let (hook, collector) = (Collector::answering(400).await, Collector::start().await);
    let program = with_secrets(&hook, &collector);
    let migrated = program.run(&["migrate", "-vv"]);
    assert_none("migrate", &format!("{migrated:?}"));
    program.ok(&["migrate", "--source", "orders"]);
    let sent =
        program.ok(&["send", "--source", "orders", "--type", "order.created", "--key", "a", "--data", "{}"]);
    let id = sent.trim();
    let mut running = program.start(&["run", "-vv"]);
    let address = crate::web::server(&mut running);
    let api = Api { program, running, address };
    // The message and the alert about it, both of which the hook refuses; and their spans.
    hook.wait_for(2).await;
    collector.wait_for(1).await;
    ask_every_route(&api, id).await;
    ask_every_page(&api, id).await;
    let refused = api.ask(&format!("GET /v1/me HTTP/1.1\r\nAuthorization: Bearer {CANARY}"), b"").await;
    assert_eq!(refused.status, 401);
    assert_none("a wrong token", &refused.body);

    let Api { program, running, .. } = api;
    for args in [
        &["validate"][..],
        &["config", "show"],
        &["config", "show", "--format", "json"],
        &["doctor", "--format", "json"],
        &["status", "--format", "json"],
        &["top", "--once"],
        &["list", "--source", "orders"],
        &["show", id, "--payload"],
        &["dlq", "list"],
        &["errors", "list"],
        &["audit", "list"],
    ] {
        let ran = program.run(args);
        assert_none(&format!("{args:?}"), &format!("{}{}", ran.stdout, ran.stderr));
    }
    let shown = program.ok(&["config", "show"]);
    assert!(shown.contains(&format!("http = \"{}/***\"", hook.url)), "{shown}");
    running.signal("TERM");
    let (_, said) = running.end();
    assert_none("the log", &said);
    assert!(said.contains("DEBUG"), "it did not say much: {}", said.len());
    for exported in collector.exported() {
        assert_none("a trace", &String::from_utf8_lossy(&exported.body));
    }
    for posted in hook.exported() {
        assert_none("what is posted", &String::from_utf8_lossy(&posted.body));
    }
}

/// A bug ends a pipe, with every value at hand.
#[cfg(feature = "failpoints")]
#[tokio::test(flavor = "multi_thread")]
async fn e7_a_panic_tells_no_secret() {
    let (hook, collector) = (Collector::answering(400).await, Collector::start().await);
    let program = with_secrets(&hook, &collector);
    program.ok(&["migrate", "--source", "orders"]);
    program.ok(&["send", "--source", "orders", "--type", "order.created", "--key", "a", "--data", "{}"]);
    for failpoints in ["delivering=panic", "settling=panic", "nonsense=panic"] {
        let mut command = program.command(&["run", "-vv"]);
        command.env("RUST_BACKTRACE", "full").env("OUTBOX_FAILPOINTS", failpoints);
        let mut running = Program::begin(&mut command);
        let told = running.wait_for("panicked at");
        assert!(told.contains(" ERROR ") && told.contains(" thread="), "it is a line of the log: {told}");
        running.wait_for("a pipe ended by a bug");
        running.signal("TERM");
        let (_, said) = running.end();
        assert_none(failpoints, &said);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_a_real_server_refuses_is_in_no_output() {
    let Some(postgres) = testbed::postgres().await else { return };
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let (database, vhost) = (postgres.database().await.unwrap(), rabbitmq.vhost().await.unwrap());
    let with_canary = |url: &str| {
        let mut url = url::Url::parse(url).unwrap();
        url.set_username("stranger").unwrap();
        url.set_password(Some(CANARY)).unwrap();
        url.to_string()
    };
    for (kind, url, section) in [
        (
            "postgres",
            with_canary(database.url()),
            "[sources.orders]\non = \"it\"\n[sinks.out]\nstdout = true\n",
        ),
        (
            "rabbitmq",
            with_canary(vhost.url()),
            "[sources.orders]\non = \"shop\"\n[sinks.out]\non = \"it\"\nexchange = \"e\"\n",
        ),
    ] {
        let config = format!(
            "[connections]\nshop = \"sqlite:shop.db\"\nit = \"{url}\"\n{section}[pipes.relay]\nfrom = \"orders\"\nto = \"out\"\n"
        );
        let program = Program::with(&config);
        program.run(&["migrate"]);
        program.run(&["send", "--type", "t", "--data", "x"]);
        let ran = program.run(&["run", "--once", "-vv"]);
        assert_ne!(ran.code, 0, "{kind}: {ran:#?}");
        for args in
            [&["migrate", "-vv"][..], &["status"], &["doctor", "--format", "json"], &["run", "--once", "-vv"]]
        {
            assert_clean(&program, &mut program.command(args));
        }
    }
}

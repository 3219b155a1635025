//! `/metrics`: how pipes, queues and error tables stand, as Prometheus reads it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::life::scene::{Shop, stop};
use crate::program::{PATIENCE, Program, RELAY};
use crate::web::{get, server};

const HTTP: &str = "[http]\nlisten = \"127.0.0.1:0\"\n";

/// Asks until every line is there.
async fn until_told(address: SocketAddr, lines: &[&str]) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let (status, shown) = get(address, "/metrics").await;
        assert_eq!(status, 200);
        let missing: Vec<_> = lines.iter().filter(|line| !shown.lines().any(|told| told == **line)).collect();
        if missing.is_empty() {
            return shown;
        }
        assert!(Instant::now() < end, "{missing:#?} is missing in {shown}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c10_d7_how_a_pipe_stands_and_what_it_did_is_told_by_type() {
    let program = Program::migrated(&(RELAY.to_owned() + HTTP));
    let dead = program.send("a");
    let mut running = program.start(&["run"]);
    let address = server(&mut running);
    // There is no such folder, and no more than one attempt.
    let shown = until_told(
        address,
        &[
            "outbox_failed_total{pipe=\"relay\",type=\"order.created\",attempt=\"1\",then=\"dead\"} 1",
            "outbox_claimed_total{pipe=\"relay\",type=\"order.created\"} 1",
            "outbox_dead{source=\"orders\",pipe=\"relay\"} 1",
            "outbox_pending{source=\"orders\",pipe=\"relay\"} 0",
            "outbox_oldest_pending_seconds{source=\"orders\",pipe=\"relay\"} 0",
            "outbox_parked{source=\"orders\",pipe=\"relay\",state=\"behind\"} 0",
            "outbox_source_reachable{source=\"orders\"} 1",
            &format!("outbox_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
        ],
    )
    .await;
    assert!(!shown.contains(&dead), "no message is named");
    program.make_folder("out");
    program.send("b");
    let shown = until_told(
        address,
        &[
            "outbox_delivered_total{pipe=\"relay\",type=\"order.created\"} 1",
            "outbox_lag_seconds_count{pipe=\"relay\",type=\"order.created\"} 1",
            "outbox_delivery_seconds_count{pipe=\"relay\",type=\"order.created\"} 1",
        ],
    )
    .await;
    for name in ["outbox_dead", "outbox_delivered_total", "outbox_lag_seconds", "outbox_pending"] {
        assert!(shown.contains(&format!("# HELP {name} ")), "{name} is explained");
    }
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn d7_e6_the_depth_of_queues_and_the_open_errors_are_told() {
    let errors = "[sources.failed]\non = \"rabbit\"\nqueue = \"work_error\"\n[sinks.errors]\non = \"shop\"\nerror_log = true\n\
                  [pipes.note]\nfrom = \"failed\"\nto = \"errors\"\n";
    let Some(shop) = Shop::open("\"1h\"", &format!("{errors}{HTTP}")).await else { return };
    shop.make_topology().await;
    shop.endpoint.answer_type("order.refused", 422);
    shop.endpoint.answer_type("order.late", 503);
    for (kind, key) in [("order.refused", "a"), ("order.refused", "b"), ("order.late", "c")] {
        shop.send(kind, key);
    }
    let mut running = shop.run();
    let address = server(&mut running);
    until_told(
        address,
        &[
            "outbox_queue_messages{source=\"work\",queue=\"work\",kind=\"work\"} 0",
            "outbox_queue_messages{source=\"work\",queue=\"work.retry.1h\",kind=\"retry\"} 1",
            "outbox_queue_messages{source=\"work\",queue=\"work_error\",kind=\"dead\"} 0",
            "outbox_queue_consumers{source=\"work\",queue=\"work\"} 1",
            "outbox_errors_open{sink=\"errors\"} 2",
            "outbox_causes_total{pipe=\"handle\",code=\"HTTP_422\"} 2",
        ],
    )
    .await;
    stop(running);
}

/// The value of a series, if it is told; `labels` are some of them.
fn value(shown: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let told = |line: &&str| {
        line.starts_with(&format!("{name}{{")) && labels.iter().all(|label| line.contains(label))
    };
    shown.lines().find(told).and_then(|line| line.rsplit_once(' ')?.1.parse().ok())
}

/// Asks until it is so.
async fn until(address: SocketAddr, wanted: impl Fn(&str) -> bool) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let (_, shown) = get(address, "/metrics").await;
        if wanted(&shown) {
            return shown;
        }
        assert!(Instant::now() < end, "it never came to that: {shown}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d7_breaker_pools_and_the_last_message_are_told_when_somebody_asks() {
    // Without that outages count a sink that is away opens the breaker.
    let config = RELAY
        .replace("outage = \"count\"\nattempts = 1\n", "probe_first = \"10ms\"\nprobe_most = \"50ms\"\n");
    let program = Program::migrated(&(config + HTTP));
    program.send("a");
    let mut running = program.start(&["run"]);
    let address = server(&mut running);
    let shown =
        until(address, |shown| value(shown, "outbox_sink_open", &["pipe=\"relay\""]) == Some(1.0)).await;
    assert_eq!(value(&shown, "outbox_pipe_running", &["pipe=\"relay\""]), Some(1.0), "{shown}");
    assert_eq!(value(&shown, "outbox_last_message_timestamp_seconds", &[]), None, "none has passed: {shown}");
    program.make_folder("out");
    let shown =
        until(address, |shown| value(shown, "outbox_sink_open", &["pipe=\"relay\""]) == Some(0.0)).await;
    let shown = if shown.contains("outbox_last_message_timestamp_seconds{") {
        shown
    } else {
        until(address, |shown| shown.contains("outbox_last_message_timestamp_seconds{")).await
    };
    let last = value(&shown, "outbox_last_message_timestamp_seconds", &["pipe=\"relay\""]).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((0.0..120.0).contains(&(now - last)), "{last} is not lately");
    let shown =
        until(address, |shown| value(shown, "outbox_in_flight", &["pipe=\"relay\""]) == Some(0.0)).await;
    let connections: f64 = ["used", "idle"]
        .iter()
        .filter_map(|state| value(&shown, "outbox_pool_connections", &["database=\"shop\"", state]))
        .sum();
    assert!(connections >= 1.0, "{shown}");
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn d8_who_was_killed_grows_old_who_stopped_is_gone_and_the_takeover_is_counted() {
    let program = Program::migrated(&(RELAY.to_owned() + "lease = \"1s\"\n"));
    let listen = ["run", "--listen", "127.0.0.1:0"];
    let mut watching = program.start(&listen);
    let address = server(&mut watching);
    watching.wait_for("outboxd is up");
    let ages =
        |shown: &str| shown.lines().filter(|line| line.starts_with("outbox_beat_age_seconds{")).count();
    until(address, |shown| ages(shown) == 1).await;
    // One that stops is told of while it runs, and not any more.
    let mut other = program.start(&["run"]);
    other.wait_for("outboxd is up");
    until(address, |shown| ages(shown) == 2).await;
    stop(other);
    until(address, |shown| ages(shown) == 1).await;
    stop(watching);

    // One that is killed stays, and whoever takes its cursor counts that.
    let mut killed = program.start(&["run"]);
    killed.wait_for("outboxd is up");
    let owned = || !program.json(&["status"])["pipes"][0]["owner"].is_null();
    let end = Instant::now() + PATIENCE;
    while !owned() {
        assert!(Instant::now() < end, "it never had the cursor");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    killed.kill();
    let mut next = program.start(&listen);
    let address = server(&mut next);
    let shown = until(address, |shown| {
        ages(shown) == 2 && value(shown, "outbox_lease_takeovers_total", &["pipe=\"relay\""]) == Some(1.0)
    })
    .await;
    assert!(shown.contains("# HELP outbox_beat_age_seconds "), "{shown}");
    stop(next);
}
#[tokio::test(flavor = "multi_thread")]
async fn d7_e6_dead_letters_that_nobody_reads_are_told() {
    let Some(shop) = Shop::open("", HTTP).await else { return };
    shop.endpoint.answer_type("order.refused", 422);
    let mut running = shop.run();
    let address = server(&mut running);
    shop.send("order.refused", "a");
    until_told(address, &["outbox_queue_messages{source=\"work\",queue=\"work_error\",kind=\"dead\"} 1"])
        .await;
    stop(running);
}

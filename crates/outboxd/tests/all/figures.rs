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

//! A process that is killed after its answers: this same test binary, started again with its orders in a variable.

use std::collections::HashSet;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use outbox::rabbitmq::{Exchange, ExchangeConfig};
use outbox::{Message, Pipe, Published, Publisher, sqlite};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::rabbitmq::{EXCHANGE, Scene, id};

/// The variable that makes a run of the test binary a child: where the log is, and where the broker should be.
const ORDERS: &str = "OUTBOX_PUBLISHER_CHILD";
const TEST: &str = "publisher::killed::publishes_when_told_to";

/// Not a test by itself: it ends at once unless a parent has left its orders. It publishes until it is killed, and says
/// of each message what became of it.
#[expect(clippy::print_stdout, reason = "its parent listens")]
#[tokio::test]
async fn publishes_when_told_to() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let (log, broker) = orders.split_once(' ').unwrap();
    let outbox = sqlite::Outbox::connect(log).await.unwrap();
    let sink = Exchange::new(broker, ExchangeConfig::new(EXCHANGE)).unwrap();
    let publisher = Publisher::new(Arc::new(sink), Arc::new(outbox.store("later")));
    for number in 0.. {
        let message = Message::new("order.created", format!("{number}")).key(number % 5);
        let told = match publisher.publish(message.clone()).await.unwrap() {
            Published::Confirmed => "confirmed",
            Published::Kept(_) => "kept",
        };
        println!("{told} {}", message.id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e4_what_was_kept_is_delivered_though_the_process_is_killed() {
    let Some(scene) = Scene::shared().await else { return };
    let scene = scene.with_orders().await;
    let folder = tempfile::tempdir().unwrap();
    let log = format!("sqlite:{}", folder.path().join("shop.db").display());
    let outbox = sqlite::Outbox::connect(&log).await.unwrap();
    outbox.migrate().await.unwrap();
    let mut told = HashSet::new();
    for (broker, answer) in [("amqp://127.0.0.1:1/%2f", "kept"), (scene.url.as_str(), "confirmed")] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(ORDERS, format!("{log} {broker}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut count = 0;
        while count < 50 {
            let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await.unwrap();
            let line = line.unwrap().expect("it goes on until it is killed");
            let Some((found, id)) = line.split_once(' ').filter(|(_, id)| id.len() == 36) else { continue };
            // Of the keys that have something kept the second child keeps as well: nobody delivers yet.
            assert!(found == answer || answer == "confirmed", "{line}");
            told.insert(id.to_owned());
            count += 1;
        }
        child.kill().await.unwrap();
    }
    let stop = CancellationToken::new();
    let sink = Exchange::new(&scene.url, scene.config()).unwrap();
    let pipe = tokio::spawn(Pipe::new(outbox.cursor("later"), sink).run(stop.clone()));
    let mut arrived = HashSet::new();
    let all = async {
        while !told.is_subset(&arrived) {
            arrived.extend(scene.drain("orders").await.iter().map(id));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all).await.expect("something that was kept is lost");
    stop.cancel();
    pipe.await.unwrap().unwrap();
}

//! The broker itself fails: stopped, killed, out of memory, or with a limit of its own.

use std::time::Duration;

use outbox::admin::{Admin, Filter, Repair, Stand};
use outbox::rabbitmq::{Exchange, ExchangeConfig};
use outbox::{Message, code};
use testbed::{RabbitMq, Vhost};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::{Flow, Log, Scene, Sum, changed, policy, until, version};
use crate::rabbitmq::EXCHANGE;

/// A broker that these tests disturb in turn, since one takes many seconds to start.
async fn private() -> Option<MutexGuard<'static, RabbitMq>> {
    static BROKER: OnceCell<Option<Mutex<RabbitMq>>> = OnceCell::const_new();
    let start = async || testbed::available(RabbitMq::start().await).map(Mutex::new);
    let mut broker = BROKER.get_or_init(start).await.as_ref()?.lock().await;
    // A test that failed may have left it down or blocked; one that runs refuses to be started.
    let _ = broker.start_again().await;
    broker.unblock().await.unwrap();
    Some(broker)
}

/// A queue on it, and the writers and the pipe that fill it.
async fn flow(broker: &RabbitMq) -> Option<(Flow, Vhost)> {
    let log = Log::new().await?;
    let vhost = broker.vhost().await.unwrap();
    Scene::at(vhost.clone()).await.with_orders().await;
    // The sink declares the exchange alone: queue and bindings must outlive whatever happens by themselves.
    let mut config = ExchangeConfig::new(EXCHANGE);
    config.timeout = Duration::from_secs(2);
    let flow = Flow::start(log, Exchange::new(vhost.url(), config).unwrap()).await;
    flow.flows(300).await;
    Some((flow, vhost))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d4_nothing_is_lost_while_the_broker_is_down() {
    let Some(mut broker) = private().await else { return };
    let Some((flow, vhost)) = flow(&broker).await else { return };
    broker.stop().await.unwrap();
    flow.is_out(code::UNREACHABLE).await;
    flow.writes(200).await;
    flow.assert_nothing_is_charged().await;
    broker.start_again().await.unwrap();
    flow.flows(300).await;
    flow.assert_nothing_is_charged().await;
    flow.finish(&Scene::at(vhost).await).await.assert_whole(1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d4_nothing_is_lost_when_the_broker_is_killed() {
    let Some(mut broker) = private().await else { return };
    let Some((flow, vhost)) = flow(&broker).await else { return };
    for _ in 0..2 {
        broker.kill().await.unwrap();
        flow.is_out(code::UNREACHABLE).await;
        flow.writes(100).await;
        broker.start_again().await.unwrap();
        flow.flows(300).await;
    }
    flow.assert_nothing_is_charged().await;
    flow.finish(&Scene::at(vhost).await).await.assert_whole(2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d4_an_alarm_of_the_broker_only_delays() {
    let Some(mut broker) = private().await else { return };
    let Some((flow, vhost)) = flow(&broker).await else { return };
    broker.block().await.unwrap();
    flow.is_out(code::BLOCKED).await;
    let delivered = flow.stats.delivered();
    flow.writes(500).await;
    assert_eq!(flow.stats.delivered(), delivered, "nothing is confirmed, so nothing is called delivered");
    flow.assert_nothing_is_charged().await;
    broker.unblock().await.unwrap();
    flow.flows(300).await;
    flow.assert_nothing_is_charged().await;
    flow.finish(&Scene::at(vhost).await).await.assert_whole(1);
}

/// Some bodies are over the limit of the sink, some only over that of the broker, which closes the channel for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_a_body_too_large_is_dead_alone_and_holds_its_key() {
    const OVER_BROKER: usize = 60_000;
    const OVER_SINK: usize = 90_000;
    let Some(broker) = private().await else { return };
    let Some(log) = Log::new().await else { return };
    let limit = async |bytes: usize| {
        let set = format!("application:set_env(rabbit, max_message_size, {bytes}).");
        broker.ctl(&["eval", &set]).await.unwrap();
    };
    limit(50_000).await;
    let scene = Scene::at(broker.vhost().await.unwrap()).await.with_orders().await;
    let mut config = ExchangeConfig::new(EXCHANGE);
    config.max_message = 80_000;
    let sink = Exchange::new(&scene.url, config).unwrap();
    let sized = |key: &str, version: usize| {
        let padding = match (key, version) {
            ("k3" | "k4", 2) => OVER_BROKER,
            ("k5" | "k6", 4) => OVER_SINK,
            _ => return vec![changed(key, version)],
        };
        let body = format!("{key}:{version}:{}", "x".repeat(padding));
        vec![Message::new("order.changed", body).key(key)]
    };
    let mut flow = Flow::of(log, sink, policy(), sized).await;
    flow.flows(1_500).await;
    until("the large ones", async || flow.stats.dead() >= 4).await;
    flow.flows(500).await;
    flow.fall_quiet().await;
    flow.is_through().await;
    let dead = flow.list(Stand::Dead).await;
    let mut keys: Vec<_> = dead.iter().map(|entry| entry.key.as_deref().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["k3", "k4", "k5", "k6"], "each once, and nothing else");
    for entry in &dead {
        let cause = entry.cause.as_ref().unwrap();
        assert_eq!((cause.code.as_ref(), entry.attempts), (code::TOO_LARGE, 1), "{cause}");
    }
    let ledger = flow.ledger.lock().unwrap().clone();
    let behind = flow.list(Stand::Behind).await;
    assert!(behind.iter().all(|entry| version(&ledger[entry.id.as_str()]) > 2), "only what follows waits");
    let mut arrivals = scene.drain("orders").await;
    let sum = Sum::of(&ledger, &arrivals, &Default::default());
    let aside = dead.iter().chain(&behind).map(|entry| entry.id.to_string()).collect();
    assert_eq!(sum.missing, aside, "what is not in the queue is there to be seen");
    // At each bad body the broker may have stored neighbours that it never confirmed.
    sum.assert_true(dead.len());
    assert_eq!(flow.stats.retried(), 0, "trying again could not have helped");

    // A person lets them go, and their keys go on.
    let filter = Filter { code: Some(code::TOO_LARGE.to_owned()), ..Filter::default() };
    assert_eq!(flow.log.outbox.repair(&filter, Repair::Skip, false).await.unwrap(), 4);
    flow.is_through().await;
    arrivals.extend(scene.drain("orders").await);
    let skipped = dead.iter().map(|entry| entry.id.to_string()).collect();
    let sum = Sum::of(&ledger, &arrivals, &skipped);
    assert_eq!(sum.missing, skipped);
    sum.assert_true(dead.len());
    flow.stop.cancel();
    flow.pipe.await.unwrap().unwrap();
    limit(128 * 1024 * 1024).await;
}

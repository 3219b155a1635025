//! Somebody takes the exchange or a binding away while messages flow.

use lapin::options::ExchangeDeleteOptions;
use outbox::admin::Stand;
use outbox::code;
use outbox::rabbitmq::{Exchange, QueueConfig, Topology};

use super::{Flow, Log, Scene};
use crate::rabbitmq::EXCHANGE;

async fn flow(topology: Topology) -> Option<(Flow, Scene)> {
    let (log, scene) = (Log::new().await?, Scene::shared().await?.with_orders().await);
    let mut config = scene.config();
    config.queues = vec![QueueConfig::new("orders", ["order.#"])];
    config.topology = topology;
    let flow = Flow::start(log, Exchange::new(&scene.url, config).unwrap()).await;
    flow.flows(300).await;
    Some((flow, scene))
}

async fn delete_exchange(scene: &Scene) {
    scene.channel.exchange_delete(EXCHANGE.into(), ExchangeDeleteOptions::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d4_a_deleted_exchange_that_is_ours_to_declare_comes_back_by_itself() {
    let Some((flow, scene)) = flow(Topology::Declare).await else { return };
    for _ in 0..3 {
        delete_exchange(&scene).await;
        flow.flows(300).await;
    }
    assert_eq!(flow.stats.dead(), 0);
    flow.finish(&scene).await.assert_whole(3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d4_a_deleted_exchange_that_is_not_ours_is_an_outage_until_somebody_declares_it() {
    let Some((flow, scene)) = flow(Topology::Check).await else { return };
    delete_exchange(&scene).await;
    flow.is_out(code::NO_EXCHANGE).await;
    let delivered = flow.stats.delivered();
    flow.writes(500).await;
    assert_eq!(flow.stats.delivered(), delivered);
    flow.assert_nothing_is_charged().await;
    let cause = flow.stats.open_cause().unwrap();
    assert!(cause.detail.contains("exchange 'shop.events' does not exist; create it"), "{cause}");
    let scene = scene.with_orders().await;
    flow.flows(300).await;
    assert_eq!(flow.stats.dead(), 0);
    flow.finish(&scene).await.assert_whole(1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d4_an_unbound_queue_stops_the_pipe_and_kills_nothing() {
    let Some((flow, scene)) = flow(Topology::Check).await else { return };
    scene.unbind("orders", "order.#").await;
    flow.is_out(code::NO_ROUTE).await;
    let delivered = flow.stats.delivered();
    flow.writes(500).await;
    assert_eq!(flow.stats.delivered(), delivered, "confirmed, and routed nowhere: not delivered");
    let waiting = flow.list(Stand::Waiting).await;
    assert!(
        waiting.iter().any(|entry| entry.cause.as_ref().is_some_and(|cause| cause.code == code::NO_ROUTE))
    );
    scene.bind("orders", "order.#").await;
    flow.flows(300).await;
    assert_eq!(flow.stats.dead(), 0);
    flow.finish(&scene).await.assert_whole(0);
}

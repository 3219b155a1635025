//! The network between the pipe and the broker fails.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use outbox::code;
use outbox::memory::Recorder;
use outbox::{Pipe, Stats};
use tokio_util::sync::CancellationToken;

use super::{Flow, Log, Scene, until};
use crate::rabbitmq::{proxy, through};

const CUTS: usize = 20;

async fn is_out(stats: &Stats) {
    until("the cut to be noticed", async || stats.open_cause().is_some()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d4_a_network_that_is_cut_at_any_byte_loses_nothing() {
    let (Some(log), Some(scene)) = (Log::new().await, Scene::shared().await) else { return };
    let scene = scene.with_orders().await;
    let proxy = proxy(&scene).await;
    let flow = Flow::start(log, through(&proxy, &scene, Duration::from_secs(5))).await;
    let mut dice = StdRng::seed_from_u64(20);
    for _ in 0..CUTS {
        flow.flows(100).await;
        // From within a handshake, after a cut that comes at once, to within some later batch.
        proxy.cut_after(dice.random_range(0..150_000));
        is_out(&flow.stats).await;
        if dice.random_bool(0.3) {
            proxy.cut_after(dice.random_range(0..2_000));
        }
        until("the sink to be back", async || flow.stats.open_cause().is_none()).await;
    }
    flow.assert_nothing_is_charged().await;
    // A cut during a handshake has nothing in flight.
    flow.finish(&scene).await.assert_whole(CUTS);
}

/// One log, two pipes: a broker out of reach is nothing to the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c3_a_broker_out_of_reach_holds_up_no_other_pipe() {
    let (Some(log), Some(scene)) = (Log::new().await, Scene::shared().await) else { return };
    let scene = scene.with_orders().await;
    let proxy = proxy(&scene).await;
    proxy.refuse();
    let (audit, stop) = (Recorder::new(), CancellationToken::new());
    let other = tokio::spawn(Pipe::new(log.outbox.cursor("audit"), audit.clone()).run(stop.clone()));
    let flow = Flow::start(log, through(&proxy, &scene, Duration::from_secs(5))).await;
    flow.is_out(code::UNREACHABLE).await;
    assert!(audit.wait_for(500).await.len() >= 500);
    assert_eq!(flow.stats.delivered(), 0);
    flow.assert_nothing_is_charged().await;
    proxy.accept();
    flow.flows(500).await;
    stop.cancel();
    other.await.unwrap().unwrap();
    assert_eq!(flow.stats.dead() + flow.stats.retried(), 0);
    flow.finish(&scene).await.assert_whole(0);
}

//! Many messages in a row that nobody can handle, and good ones behind them.

use std::time::Duration;

use outbox::policy::{OnDead, Policy};
use outbox::rabbitmq::WorkQueue;
use outbox::sql::{Kind, Statements};
use outbox::{Message, Pipe};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Path;

const BAD: usize = 50;
const GOOD: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d5_a_burst_of_bad_messages_is_set_aside_and_the_queue_goes_on() {
    let (Some(broker), Some(server)) = (testbed::rabbitmq().await, testbed::postgres().await) else { return };
    let (vhost, database) = (broker.vhost().await.unwrap(), server.database().await.unwrap());
    let path = Path::new(vhost.url(), database.url(), &[Duration::from_millis(200)]).await;
    let bad = (0..BAD).map(|n| Message::new("order.changed", "{ no JSON").key(format!("b{n}")));
    let good = |n| Message::json("order.changed", &json!({ "version": n })).unwrap().key(format!("k{n}"));
    path.send(&bad.chain((0..GOOD).map(good)).collect::<Vec<_>>()).await;

    let text = "insert into effects (key, version, id) values (:key, :payload.version, :id)";
    let statements = Statements::parse(Kind::Postgres, &[text]).unwrap();
    let handler = path.database.inbox().sql("effects", statements).unwrap();
    let source = WorkQueue::new(vhost.url(), path.config.clone()).unwrap();
    // The probes are as far apart as they are by default: nobody may have to wait for one.
    let policy =
        Policy { steps: Some(path.config.retry.clone()), on_dead: OnDead::Skip, ..Policy::default() };
    // In small claims, one at a time: the good ones are not out already when a streak would be full.
    let pipe = Pipe::new(source, handler).policy(policy).batch(10).depth(1).idle(Duration::from_millis(50));
    let (stats, stop) = (pipe.stats(), CancellationToken::new());
    let running = tokio::spawn(pipe.run(stop.clone()));
    path.until(i64::try_from(GOOD).unwrap()).await;
    assert_eq!(stats.open_cause(), None, "nothing was taken for an outage");
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!((stats.dead(), stats.retried()), (BAD as u64, 0));
}

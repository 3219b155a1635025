//! Messages that no queue is bound for, among others.

use std::collections::HashSet;
use std::time::Duration;

use outbox::admin::{Admin, Filter, Repair, Stand};
use outbox::policy::Backoff;
use outbox::{Message, Policy, code};

use super::{Flow, Log, Scene, Sum, changed, policy, version};

/// A tenth of the messages goes nowhere: some without a key, and one in the life of every tenth key.
fn events(key: &str, version: usize) -> Vec<Message> {
    let mut events = match (key.ends_with('7'), version) {
        (true, 2) => vec![Message::new("nobody.cares", format!("{key}:2")).key(key)],
        _ => vec![changed(key, version)],
    };
    if version % 10 == 1 {
        events.push(Message::new("nobody.cares", "alone:0"));
    }
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_unroutable_messages_are_dead_in_the_end_and_never_called_delivered() {
    let (Some(log), Some(scene)) = (Log::new().await, Scene::shared().await) else { return };
    let scene = scene.with_orders().await;
    let policy = Policy {
        attempts: 3,
        probe: Backoff { first: Duration::from_millis(20), most: Duration::from_millis(50) },
        ..policy()
    };
    let mut flow = Flow::of(log, scene.sink(), policy, events).await;
    flow.flows(1_000).await;
    flow.fall_quiet().await;
    flow.is_through().await;
    let ledger = flow.ledger.lock().unwrap().clone();
    let unroutable: HashSet<_> = ledger
        .values()
        .filter(|message| message.kind == "nobody.cares")
        .map(|message| message.id.to_string())
        .collect();
    assert!(unroutable.len() * 15 > ledger.len(), "{} of {}", unroutable.len(), ledger.len());

    let (dead, behind) = (flow.list(Stand::Dead).await, flow.list(Stand::Behind).await);
    assert_eq!(dead.iter().map(|entry| entry.id.to_string()).collect::<HashSet<_>>(), unroutable);
    for entry in &dead {
        let cause = entry.cause.as_ref().unwrap();
        assert_eq!((cause.code.as_ref(), entry.attempts), (code::NO_ROUTE, 3), "{cause}");
    }
    for entry in &behind {
        let message = &ledger[entry.id.as_str()];
        assert!(message.key.as_ref().unwrap().ends_with('7') && version(message) > 2, "{message:?}");
    }
    let mut arrivals = scene.drain("orders").await;
    let sum = Sum::of(&ledger, &arrivals, &HashSet::new());
    let aside = dead.iter().chain(&behind).map(|entry| entry.id.to_string()).collect();
    assert_eq!(sum.missing, aside, "what is not in the queue is there to be seen");
    sum.assert_true(0);
    assert_eq!(flow.stats.delivered(), arrivals.len() as u64, "called delivered: those in the queue");
    assert_eq!(flow.status().await.delivered, Some(arrivals.len() as u64));

    // Somebody binds a queue for them, and a person has them tried again.
    scene.bind("orders", "nobody.#").await;
    let filter = Filter { code: Some(code::NO_ROUTE.to_owned()), ..Filter::default() };
    let tried_again = flow.log.outbox.repair(&filter, Repair::Retry, false).await.unwrap();
    assert_eq!(tried_again, dead.len() as u64);
    flow.is_through().await;
    arrivals.extend(scene.drain("orders").await);
    Sum::of(&ledger, &arrivals, &HashSet::new()).assert_whole(0);
    flow.stop.cancel();
    flow.pipe.await.unwrap().unwrap();
}

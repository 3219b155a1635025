//! Moves to a retry queue of which only some arrive: it is full, and takes more when what is in it has gone back.

use std::time::Duration;

use outbox::rabbitmq::WorkQueue;
use outbox::{Cause, Claim, Source, Verdict};

use super::super::Scene;
use super::order::{bound, named, send};
use super::text;

const RETRIES: &str = "work.retry.500ms";

impl Scene {
    /// Limits the retry queue; it says so to whoever sends more.
    async fn limit(&self, limit: &str) {
        let definition = format!(r#"{{{limit}, "overflow": "reject-publish"}}"#);
        let pattern = format!("^{}$", RETRIES.replace('.', "\\."));
        self.policy(&["set_policy", "--apply-to", "queues", "limit", &pattern, &definition], true).await;
    }

    async fn lift_limit(&self) {
        self.policy(&["clear_policy", "limit"], false).await;
    }

    /// A queue takes a policy on a while after it was set.
    async fn policy(&self, change: &[&str], limited: bool) {
        let broker = testbed::rabbitmq().await.unwrap();
        let of_vhost = ["-p", self.vhost.name()];
        broker.ctl(&[&change[..1], &of_vhost, &change[1..]].concat()).await.unwrap();
        let tell = [&["list_queues", "-q"][..], &of_vhost, &["name", "policy"]].concat();
        let applied = async { while broker.ctl(&tell).await.unwrap().contains("limit") != limited {} };
        tokio::time::timeout(Duration::from_secs(30), applied).await.expect("the policy applies");
    }
}

/// So many messages in one claim: what is not there yet is waited for.
async fn claim(source: &WorkQueue, count: usize) -> Claim {
    let asked = async {
        loop {
            let claim = source.claim(count).await.unwrap();
            match claim.messages.len() {
                0 => source.wait(Duration::from_millis(20)).await,
                found if found == count => return claim,
                found => source.settle(&claim, &vec![Verdict::Released; found]).await.unwrap(),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asked).await.expect("they come")
}

/// Settles as a pipe does, until it is done; tells how often it was not.
async fn settle(source: &WorkQueue, claim: &Claim, verdicts: &[Verdict]) -> usize {
    let mut failures = 0;
    let settled = async {
        while let Err(error) = source.settle(claim, verdicts).await {
            assert!(error.is_temporary(), "{error}");
            failures += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), settled).await.expect("there is room after a while");
    failures
}

/// What a pipe makes of a claim that is delivered without a fault.
fn judged(claim: &Claim) -> Vec<Verdict> {
    let verdict = |at| if claim.is_held(at) { Verdict::Behind } else { Verdict::Done };
    (0..claim.messages.len()).map(verdict).collect()
}

/// Handles what comes until there are so many; tells which, in their order.
async fn handle(source: &WorkQueue, count: usize) -> Vec<String> {
    let mut handled = Vec::new();
    let working = async {
        while handled.len() < count {
            let claim = source.claim(10).await.unwrap();
            if claim.messages.is_empty() {
                source.wait(Duration::from_millis(20)).await;
                continue;
            }
            let verdicts = judged(&claim);
            let done = claim.messages.iter().zip(&verdicts).filter(|(_, verdict)| **verdict == Verdict::Done);
            handled.extend(done.map(|(message, _)| format!("{}#{}", &text(message)[..4], message.attempts)));
            settle(source, &claim, &verdicts).await;
        }
    };
    let worked = tokio::time::timeout(Duration::from_secs(30), working).await;
    assert!(worked.is_ok(), "only {handled:?} came");
    handled
}

fn retry() -> Verdict {
    Verdict::Retry { after: Duration::ZERO, attempts: 1, cause: Cause::new("X", "x") }
}

/// The first is too heavy for the retry queue, and those behind it are not: they are there and back before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d5_a_key_keeps_its_order_when_the_later_ones_get_into_the_retry_queue_first() {
    let Some(scene) = Scene::shared().await else { return };
    let source = WorkQueue::new(&scene.url, bound(&scene, &[500]).await).unwrap();
    scene.limit(r#""max-length-bytes": 1000"#).await;
    let mut all: Vec<_> = (0..3).map(|n| named("a", n)).collect();
    all[0].payload = format!("a000{}", "x".repeat(5_000)).into();
    send(&scene, &all).await;
    let first = claim(&source, 3).await;
    let verdicts = [retry(), Verdict::Behind, Verdict::Behind];
    let error = source.settle(&first, &verdicts).await.unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("it may be full"), "{error}");
    scene.until_count(RETRIES, 2).await;
    let early = claim(&source, 2).await;
    assert_eq!(judged(&early), [Verdict::Behind, Verdict::Behind], "the first of their key is not done");
    scene.lift_limit().await;
    settle(&source, &first, &verdicts).await;
    settle(&source, &early, &judged(&early)).await;
    assert_eq!(handle(&source, 3).await, ["a000#1", "a001#0", "a002#0"]);
    source.close().await.unwrap();
    assert_eq!(scene.count("work").await + scene.count(RETRIES).await, 0);
}

/// What stays here stands between the moves, and is none of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d5_what_was_released_between_moves_that_arrive_in_part_comes_once_and_nothing_is_passed_over() {
    let Some(scene) = Scene::shared().await else { return };
    let source = WorkQueue::new(&scene.url, bound(&scene, &[500]).await).unwrap();
    scene.limit(r#""max-length": 1"#).await;
    send(&scene, &[named("a", 0), named("b", 0), named("a", 1), named("c", 0), named("a", 2)]).await;
    let all = claim(&source, 5).await;
    let verdicts = [retry(), Verdict::Released, Verdict::Behind, Verdict::Done, Verdict::Behind];
    assert!(settle(&source, &all, &verdicts).await > 0, "only some arrived at first");
    let handled = handle(&source, 4).await;
    let of = |key: &str| handled.iter().filter(|name| name.starts_with(key)).cloned().collect::<Vec<_>>();
    assert_eq!(of("a"), ["a000#1", "a001#0", "a002#0"]);
    assert_eq!((of("b"), of("c").len()), (vec!["b000#0".to_owned()], 0));
    source.close().await.unwrap();
    assert_eq!(scene.count("work").await + scene.count(RETRIES).await, 0);
}

//! A9: the four scenarios of the document, with its own file: by the document's rule for an outage, and by ours.

use std::time::Duration;

use testbed::RabbitMq;

use super::{COUNT, Mark, QUICK, Scene, ids, stop};

/// A scenario under the document's rule, and again under our default.
macro_rules! under_both_rules {
    ($name:ident, $scenario:path) => {
        mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn by_the_rule_of_the_document() {
                $scenario(&super::COUNT).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn by_our_default() {
                $scenario(&[]).await;
            }
        }
    };
}

under_both_rules!(a9_scenario_1_a_single_worker, super::a_single_worker);
under_both_rules!(a9_scenario_2_two_workers_compete_and_one_works, super::two_workers);
under_both_rules!(a9_scenario_4_an_id_that_was_processed_is_not_published_again, super::a_known_id);

type Rule<'a> = &'a [(&'a str, &'a str)];

async fn a_single_worker(rule: Rule<'_>) {
    let Some(scene) = Scene::shared(rule).await else { return };
    // The rule of this run is the one that is meant.
    let outage = &scene.program.json(&["config", "show"])["pipes"]["relay"]["outage"];
    assert_eq!(outage == "count", !rule.is_empty(), "{outage}");
    let events = scene.create(10).await;
    let mut running = scene.run_active();
    let line = running.wait_for(" cycle ");
    assert!(line.contains("delivered=10 failed=0 skipped=0"), "{line}");
    let sent = Mark { dispatched: true, processed: true, attempts: 0, error: None };
    assert_eq!(scene.marks().await, vec![sent; 10]);
    assert_eq!(scene.arrived().await, ids(&events));
    stop(running);
}

async fn two_workers(rule: Rule<'_>) {
    let Some(scene) = Scene::shared(&[rule, &QUICK].concat()).await else { return };
    // Both at once.
    let mut workers = [scene.run(), scene.run()];
    let mut active = [None; 2];
    while active.contains(&None) {
        for (worker, active) in workers.iter_mut().zip(&mut active) {
            for line in worker.heard() {
                if line.contains("this relay is the active one") {
                    *active = Some(true);
                } else if line.contains("another relay is active; standing by") {
                    *active = Some(false);
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_ne!(active[0], active[1], "one of them has the lock");
    let events = scene.create(100).await;
    scene.until_dispatched().await;
    assert_eq!(scene.arrived().await, ids(&events), "nothing twice");
    let worked: Vec<_> = workers.map(|worker| stop(worker).contains("delivered=100")).into();
    assert_eq!(worked, active.map(|active| active == Some(true)));
}

/// Three copies of the system on one broker: with the document's rule and quick retries, with the document's rule and
/// slow ones, and with ours.
#[tokio::test(flavor = "multi_thread")]
async fn a9_scenario_3_the_broker_is_stopped_and_started_again() {
    let Some(mut broker) = testbed::available(RabbitMq::start().await) else { return };
    let slow =
        [("retry_first = \"5s\"", "retry_first = \"10s\""), ("retry_most = \"5s\"", "retry_most = \"10s\"")];
    let quickly = [&COUNT[..], &QUICK].concat();
    let Some(quickly) = Scene::at(&broker, &quickly).await else { return };
    let Some(slowly) = Scene::at(&broker, &[&COUNT[..], &slow, &QUICK[..1]].concat()).await else { return };
    let Some(ours) = Scene::at(&broker, &QUICK).await else { return };
    let scenes = [&quickly, &slowly, &ours];
    let mut workers = scenes.map(Scene::run_active);
    let mut before = Vec::new();
    for scene in scenes {
        before.push(ids(&scene.create(1).await));
        scene.until_dispatched().await;
    }
    broker.stop().await.unwrap();
    let mut during = Vec::new();
    for scene in scenes {
        during.push(ids(&scene.create(4).await));
    }
    // By the document's rule attempts rise, with the cause in the row, up to five and no further.
    quickly.until(r#"select min("Attempts") = 5 from "OutboxMessages" where "DispatchedAt" is null"#).await;
    slowly.until(r#"select min("Attempts") >= 1 from "OutboxMessages" where "DispatchedAt" is null"#).await;
    for mark in [&quickly.marks().await[1..], &slowly.marks().await[1..]].concat() {
        assert!(!mark.dispatched && mark.error.unwrap().starts_with("UNREACHABLE: "), "{:?}", mark.attempts);
    }
    // By ours they do not, and nothing is written.
    workers[2].wait_for("the sink is unavailable; nothing is charged");
    let untouched = Mark { dispatched: false, processed: false, attempts: 0, error: None };
    assert_eq!(ours.marks().await[1..], vec![untouched; 4]);
    broker.start_again().await.unwrap();
    // What had attempts left is delivered, and what had none waits for a person.
    slowly.until_dispatched().await;
    ours.until_dispatched().await;
    let marks = slowly.marks().await;
    assert!(marks[1..].iter().all(|mark| mark.processed && (1..5).contains(&mark.attempts)), "{marks:#?}");
    assert!(ours.marks().await.iter().all(|mark| mark.processed && mark.attempts == 0));
    let after = quickly.create(1).await;
    quickly.until(r#"select count(*) = 2 from "ProcessedEvents""#).await;
    assert!(quickly.marks().await[1..5].iter().all(|mark| !mark.dispatched && mark.attempts == 5));
    quickly.program.ok(&["retry", "--yes"]);
    quickly.until_dispatched().await;
    assert_eq!(quickly.arrived().await, [&before[0][..], &ids(&after), &during[0]].concat());
    // Delays are jittered, and without a key there is no order among what failed.
    let mut arrived = slowly.arrived().await;
    arrived[1..].sort();
    during[1].sort();
    assert_eq!(arrived, [&before[1][..], &during[1]].concat());
    assert_eq!(ours.arrived().await, [&before[2][..], &during[2]].concat());
    workers.into_iter().for_each(|worker| drop(stop(worker)));
}

async fn a_known_id(rule: Rule<'_>) {
    let Some(scene) = Scene::shared(rule).await else { return };
    let events = scene.create(1).await;
    let running = scene.run_active();
    scene.until_dispatched().await;
    stop(running);
    // The mark is lost, as when a worker dies between publishing and marking, and the record is not.
    scene.execute(r#"update "OutboxMessages" set "DispatchedAt" = null"#).await;
    let mut running = scene.run();
    let line = running.wait_for("published before; marked as done and not sent again");
    assert!(line.contains(&events[0].id.to_string()), "{line}");
    scene.until_dispatched().await;
    assert_eq!(scene.arrived().await, ids(&events), "once");
    stop(running);
}

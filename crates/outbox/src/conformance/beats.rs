//! The clauses of [`Beats`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use crate::beats::{Beat, Beats, Seen, State};

/// A fresh, empty table of beats.
#[async_trait]
pub trait BeatsFixture: Send + Sync {
    /// The beats under test.
    fn beats(&self) -> Arc<dyn Beats>;

    /// Makes every beat of the instance so much older, as only time can.
    async fn age(&self, instance: &str, by: Duration);
}

/// Runs every clause of beats against the fixture.
#[macro_export]
macro_rules! beats_suite {
    ($fixture:expr) => {
        $crate::conformance_tests! { beats, $fixture,
            b1_a_beat_is_written_or_renewed_one_of_each_instance_and_pipe
            b1_several_are_written_all_or_none
            b2_a_list_has_the_age_on_the_clock_of_the_database
            b3_a_clean_stop_marks_the_beats_of_that_instance_alone
            b4_what_is_old_is_forgotten_in_bounded_steps
        }
    };
}

/// The age that a beat gets in these tests, and what tells it from the others.
const OLD: Duration = Duration::from_secs(7_200);
const YOUNG: Duration = Duration::from_secs(3_600);

fn beat(instance: &str, pipe: &str) -> Beat {
    Beat {
        instance: instance.to_owned(),
        pipe: pipe.to_owned(),
        version: "1.2.3".to_owned(),
        started_at: "2026-01-31T12:00:00.250Z".parse().unwrap(),
        state: State::Running,
        cause: None,
        last_message_at: None,
        delivered: 0,
        failed: 0,
        in_flight: 0,
    }
}

async fn listed(beats: &Arc<dyn Beats>) -> Vec<Seen> {
    beats.list().await.unwrap()
}

fn names(seen: &[Seen]) -> Vec<(&str, &str)> {
    seen.iter().map(|seen| (seen.beat.pipe.as_str(), seen.beat.instance.as_str())).collect()
}

pub async fn b1_a_beat_is_written_or_renewed_one_of_each_instance_and_pipe(fixture: &impl BeatsFixture) {
    let beats = fixture.beats();
    let first = [beat("b:1", "relay"), beat("a:1", "relay"), beat("a:1", "mailer")];
    beats.beat(&first).await.unwrap();
    beats.beat(&[]).await.unwrap();
    assert_eq!(names(&listed(&beats).await), [("mailer", "a:1"), ("relay", "a:1"), ("relay", "b:1")]);
    let renewed = Beat {
        version: "1.3.0".to_owned(),
        state: State::Waiting,
        cause: Some("UNREACHABLE: it's away".to_owned()),
        last_message_at: "2026-01-31T12:00:01.500Z".parse().ok(),
        // More than 32 bits hold.
        delivered: 5_000_000_000,
        failed: 2,
        in_flight: 7,
        ..beat("a:1", "relay")
    };
    beats.beat(std::slice::from_ref(&renewed)).await.unwrap();
    let all = listed(&beats).await;
    assert_eq!(all.iter().map(|seen| &seen.beat).collect::<Vec<_>>(), [&first[2], &renewed, &first[0]]);
    for state in [State::Starting, State::Paused, State::Stopped, State::Running] {
        beats.beat(&[Beat { state, ..beat("a:1", "relay") }]).await.unwrap();
        let all = listed(&beats).await;
        assert_eq!((all.len(), all[1].beat.state, &all[1].beat.cause), (3, state, &None));
    }
}

pub async fn b1_several_are_written_all_or_none(fixture: &impl BeatsFixture) {
    let beats = fixture.beats();
    let long = "x".repeat(256);
    // Only a database with a limit refuses the second; there the first must not stay.
    let result = beats.beat(&[beat("a:1", "relay"), beat("a:1", &long)]).await;
    assert_eq!(listed(&beats).await.len(), if result.is_ok() { 2 } else { 0 });
}

pub async fn b2_a_list_has_the_age_on_the_clock_of_the_database(fixture: &impl BeatsFixture) {
    let beats = fixture.beats();
    let now = Timestamp::now();
    let day = SignedDuration::from_hours(24);
    // Whatever the clocks of the instances say.
    let (past, future) = (now - day, now + day);
    for (instance, clock) in [("past", past), ("future", future)] {
        let told = Beat { started_at: clock, last_message_at: Some(clock), ..beat(instance, "relay") };
        beats.beat(&[told]).await.unwrap();
    }
    for seen in listed(&beats).await {
        assert!(seen.age < Duration::from_secs(60) && !seen.stopped, "{seen:?}");
    }
    fixture.age("past", OLD).await;
    let all = listed(&beats).await;
    let age_of = |name: &str| all.iter().find(|seen| seen.beat.instance == name).unwrap().age;
    assert!(age_of("past") >= OLD && age_of("past") < OLD * 2, "{all:?}");
    assert!(age_of("future") < Duration::from_secs(60), "{all:?}");
    beats.beat(&[beat("past", "relay")]).await.unwrap();
    assert!(listed(&beats).await.iter().all(|seen| seen.age < Duration::from_secs(60)), "renewed");
}

pub async fn b3_a_clean_stop_marks_the_beats_of_that_instance_alone(fixture: &impl BeatsFixture) {
    let beats = fixture.beats();
    beats.beat(&[beat("a", "relay"), beat("a", "mailer"), beat("b", "relay")]).await.unwrap();
    beats.stopped("a").await.unwrap();
    beats.stopped("nobody").await.unwrap();
    let stopped = async || listed(&beats).await.iter().map(|seen| seen.stopped).collect::<Vec<_>>();
    assert_eq!(stopped().await, [true, true, false], "mailer of a, relay of a, relay of b");
    beats.beat(&[beat("a", "relay")]).await.unwrap();
    assert_eq!(stopped().await, [true, false, false], "who beats has not stopped");
}

pub async fn b4_what_is_old_is_forgotten_in_bounded_steps(fixture: &impl BeatsFixture) {
    let beats = fixture.beats();
    beats.beat(&[beat("a", "one"), beat("a", "two"), beat("a", "three"), beat("b", "one")]).await.unwrap();
    beats.stopped("a").await.unwrap();
    assert_eq!(beats.forget(YOUNG, 100).await.unwrap(), 0);
    fixture.age("a", OLD).await;
    assert_eq!(beats.forget(OLD * 2, 100).await.unwrap(), 0, "they are younger");
    assert_eq!(beats.forget(YOUNG, 2).await.unwrap(), 2);
    assert_eq!(listed(&beats).await.len(), 2);
    assert_eq!(beats.forget(YOUNG, 2).await.unwrap(), 1);
    assert_eq!(beats.forget(YOUNG, 2).await.unwrap(), 0);
    assert_eq!(names(&listed(&beats).await), [("one", "b")]);
}

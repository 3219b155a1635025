//! The clauses of [`Pauses`].

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};

use crate::pauses::{Pause, Paused, Pauses};

/// A fresh, empty table of pauses.
pub trait PausesFixture: Send + Sync {
    /// The pauses under test; each time as somebody else would see them.
    fn pauses(&self) -> Arc<dyn Pauses>;
}

/// Runs every clause of pauses against the fixture.
#[macro_export]
macro_rules! pauses_suite {
    ($fixture:expr) => {
        $crate::conformance_tests! { pauses, $fixture,
            z1_a_pause_is_seen_by_everybody_who_asks_until_it_is_resumed
            z2_pausing_twice_keeps_the_first_person_and_time
            z3_resuming_what_is_not_paused_says_so_and_changes_nothing
            z4_of_several_at_once_one_has_done_it
        }
    };
}

async fn listed(fixture: &impl PausesFixture) -> Vec<Pause> {
    fixture.pauses().list().await.unwrap()
}

fn names(pauses: &[Pause]) -> Vec<&str> {
    pauses.iter().map(|pause| pause.pipe.as_str()).collect()
}

fn is_new(paused: &Paused) -> bool {
    matches!(paused, Paused::Now(_))
}

pub async fn z1_a_pause_is_seen_by_everybody_who_asks_until_it_is_resumed(fixture: &impl PausesFixture) {
    assert_eq!(listed(fixture).await, []);
    let note = "it's 5 o'clock; \u{1f43c} \\ % _ \"why\"\nnot?";
    let relay = fixture.pauses().pause("relay", "ann@shop-1", Some(note)).await.unwrap();
    let mailer = fixture.pauses().pause("mailer", "bob", None).await.unwrap();
    // A name is what it is, whatever a database thinks is the same.
    let other = fixture.pauses().pause("Relay", "cid", None).await.unwrap();
    assert!(is_new(&relay) && is_new(&mailer) && is_new(&other));
    let all = listed(fixture).await;
    for pause in [&relay, &mailer, &other].map(Paused::pause) {
        assert!(all.contains(pause), "{pause:?} is not in {all:?}");
        let off = Timestamp::now().duration_since(pause.at).abs();
        assert!(off < SignedDuration::from_secs(60), "{pause:?}");
    }
    assert_eq!(all.len(), 3);
    let pause = relay.pause();
    assert_eq!((&*pause.pipe, &*pause.by, pause.note.as_deref()), ("relay", "ann@shop-1", Some(note)));
    assert_eq!(mailer.pause().note, None);
    fixture.pauses().resume("relay").await.unwrap();
    let mut left = listed(fixture).await;
    left.sort_by(|one, other| one.pipe.cmp(&other.pipe));
    assert_eq!(names(&left), ["Relay", "mailer"]);
}

pub async fn z2_pausing_twice_keeps_the_first_person_and_time(fixture: &impl PausesFixture) {
    let first = fixture.pauses().pause("relay", "ann", Some("a look at the broker")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await; // Time itself is the subject.
    let second = fixture.pauses().pause("relay", "bob", Some("another reason")).await.unwrap();
    assert_eq!(second, Paused::Already(first.pause().clone()));
    assert_eq!(listed(fixture).await, [first.pause().clone()]);
    fixture.pauses().resume("relay").await.unwrap();
    let third = fixture.pauses().pause("relay", "bob", None).await.unwrap();
    assert!(is_new(&third) && third.pause().at > first.pause().at, "{third:?} after {first:?}");
    assert_eq!((&*third.pause().by, &third.pause().note), ("bob", &None));
}

pub async fn z3_resuming_what_is_not_paused_says_so_and_changes_nothing(fixture: &impl PausesFixture) {
    let paused = fixture.pauses().pause("relay", "ann", None).await.unwrap();
    assert_eq!(fixture.pauses().resume("mailer").await.unwrap(), None);
    assert_eq!(names(&listed(fixture).await), ["relay"]);
    assert_eq!(fixture.pauses().resume("relay").await.unwrap(), Some(paused.pause().clone()));
    assert_eq!(fixture.pauses().resume("relay").await.unwrap(), None);
    assert_eq!(listed(fixture).await, []);
}

pub async fn z4_of_several_at_once_one_has_done_it(fixture: &impl PausesFixture) {
    let people = ["ann", "bob", "cid", "dan", "eve", "fay"];
    let pausing = people.map(async |who| fixture.pauses().pause("relay", who, None).await.unwrap());
    let paused = join_all(pausing).await;
    assert_eq!(paused.iter().filter(|paused| is_new(paused)).count(), 1, "{paused:?}");
    let first = paused[0].pause();
    assert!(paused.iter().all(|paused| paused.pause() == first), "{paused:?}");
    let resuming = people.map(async |_| fixture.pauses().resume("relay").await.unwrap());
    let resumed: Vec<Pause> = join_all(resuming).await.into_iter().flatten().collect();
    assert_eq!(resumed, std::slice::from_ref(first));
}

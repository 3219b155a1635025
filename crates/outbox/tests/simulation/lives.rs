//! A hundred thousand lives, each of another seed.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::ledger::Violation;
use crate::lie::Lie;
use crate::life::{End, live};

/// Which lives: all in CI, a tenth by hand, or as told, as in `5000` or `100000..200000`.
fn lives() -> Range<u64> {
    let usual = if std::env::var_os("CI").is_some() { 100_000 } else { 10_000 };
    let Ok(told) = std::env::var("OUTBOX_LIVES") else { return 0..usual };
    let (first, end) = told.split_once("..").unwrap_or(("0", &told));
    match (first.parse(), end.parse()) {
        (Ok(first), Ok(end)) => first..end,
        _ => panic!("OUTBOX_LIVES is '{told}': write how many, or the first and the end as in 5000..6000"),
    }
}

fn seed_told() -> Option<u64> {
    std::env::var("OUTBOX_SEED").ok().and_then(|seed| seed.parse().ok())
}

/// A panic of the fakes themselves breaks a life as well.
fn is_broken(seed: u64, lie: Lie) -> bool {
    std::panic::catch_unwind(|| live(seed, lie, false).violation.is_some()).unwrap_or(true)
}

/// The first of these seeds that breaks a clause, by as many threads as there are cores.
pub(crate) fn first_broken(seeds: Range<u64>, lie: Lie) -> Option<u64> {
    let (next, found) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let broken = Mutex::new(None::<u64>);
    let search = || {
        while !found.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            if is_broken(seed, lie) {
                found.store(true, Ordering::Relaxed);
                let mut broken = broken.lock().unwrap_or_else(PoisonError::into_inner);
                *broken = Some(broken.map_or(seed, |other| other.min(seed)));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(search))));
    broken.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the life of a seed from its beginning, and how to see it again.
fn tell(seed: u64) {
    let again = format!("again: OUTBOX_SEED={seed} cargo test -p outbox --test simulation lives");
    eprintln!("seed {seed}; {again}");
    let End { violation, story } = live(seed, Lie::None, true);
    if let Some(Violation { clause, what }) = violation {
        panic!("{}\n\nseed {seed} breaks {clause}: {what}\n{again}", story.join("\n"));
    }
}

#[test]
fn c4_every_clause_holds_in_each_of_many_seeded_lives() {
    if let Some(seed) = seed_told() {
        return tell(seed);
    }
    if let Some(seed) = first_broken(lives(), Lie::None) {
        tell(seed);
        panic!(
            "seed {seed} broke a clause, and did not when it was asked again: the simulation is not repeatable"
        );
    }
}

#[test]
fn a_seed_tells_the_same_story_every_time() {
    for seed in 0..50 {
        let once = live(seed, Lie::None, true);
        assert!(once.story.len() > 10, "seed {seed} tells nothing");
        assert_eq!(once, live(seed, Lie::None, true), "seed {seed}");
    }
}

#[test]
fn the_lives_meet_everything_that_can_happen() {
    let mut unmet = vec![
        "is dead",
        "is frozen",
        "is told to stop",
        "has ended",
        "takes the cursor",
        "is told that it lost its claims",
        "the lease ends early",
        "the source is broken",
        "heard: false",
        "set aside: true",
        "Away",
        "Refusing",
        "Unavailable",
        "defect: true",
        "permanent: true",
        "Retry {",
        "Dead {",
        "Behind",
        "Released",
        "Done",
    ];
    for seed in 0..500 {
        let story = live(seed, Lie::None, true).story;
        unmet.retain(|event| !story.iter().any(|line| line.contains(event)));
    }
    assert!(unmet.is_empty(), "in 500 lives nothing of this happens: {unmet:?}");
}

//! Who may go next.

use std::time::Duration;

use super::*;
use crate::sink::{Cause, code};

fn claim(keys: &[&str]) -> Claim {
    let messages = keys.iter().map(|key| {
        let message = Message::new("t", "");
        if key.is_empty() { message } else { message.key(key) }
    });
    Claim::new(messages.collect(), ())
}

fn retry() -> Verdict {
    Verdict::Retry { after: Duration::ZERO, attempts: 1, cause: Cause::new(code::HANDLER, "") }
}

fn keys(batch: &Batch) -> Vec<&str> {
    batch.messages.iter().map(|message| message.key.as_deref().unwrap_or("")).collect()
}

fn decide_all(lineup: &mut Lineup, batch: &Batch, verdict: &Verdict) {
    for (ticket, message) in batch.tickets.iter().zip(&batch.messages) {
        lineup.decide(*ticket, message.key.as_deref(), verdict.clone());
    }
}

#[test]
fn one_of_a_key_is_out_and_other_keys_go_on() {
    let mut lineup = Lineup::new(Order::Key, Group::None);
    lineup.admit(1, claim(&["a", "a", "b", "", ""]));
    let first = lineup.next_batch(10).unwrap();
    assert_eq!(keys(&first), ["a", "b", "", ""]);
    assert!(lineup.next_batch(10).is_none());
    decide_all(&mut lineup, &first, &Verdict::Done);
    let second = lineup.next_batch(10).unwrap();
    assert_eq!(keys(&second), ["a"]);
    assert!(lineup.take_decided().is_none());
    decide_all(&mut lineup, &second, &Verdict::Done);
    assert_eq!(lineup.take_decided().unwrap().verdicts, vec![Verdict::Done; 5]);
    lineup.settled(1, 1, false);
    assert!(lineup.keys.is_empty());
}

#[test]
fn c9_a_batch_is_of_one_type_the_types_take_turns_and_a_key_keeps_its_order_across_them() {
    let mut lineup = Lineup::new(Order::Key, Group::Type);
    // The second of key "k" is of another type than the first.
    let messages = ["a:", "a:k", "b:k", "a:", "b:", "c:"].map(|name| match name.split_once(':') {
        Some((kind, "")) => Message::new(kind, ""),
        Some((kind, key)) => Message::new(kind, "").key(key),
        None => unreachable!(),
    });
    lineup.admit(1, Claim::new(messages.to_vec(), ()));
    let kinds = |batch: &Batch| batch.messages.iter().map(|m| m.kind.clone()).collect::<Vec<_>>().concat();
    let first = lineup.next_batch(2).unwrap();
    assert_eq!(kinds(&first), "aa");
    assert_eq!(kinds(&lineup.next_batch(2).unwrap()), "b", "its other one waits for an 'a' of its key");
    assert_eq!(kinds(&lineup.next_batch(2).unwrap()), "c");
    assert_eq!(kinds(&lineup.next_batch(2).unwrap()), "a", "the rest of the first");
    assert!(lineup.next_batch(2).is_none());
    decide_all(&mut lineup, &first, &Verdict::Done);
    let last = lineup.next_batch(2).unwrap();
    assert_eq!((kinds(&last).as_str(), keys(&last)), ("b", vec!["k"]));
}

#[test]
fn c9_what_is_ready_in_several_groups_is_released_too() {
    let mut lineup = Lineup::new(Order::Key, Group::Type);
    let messages = ["a", "b", "b", "c"].map(|kind| Message::new(kind, "").key(kind));
    lineup.admit(1, Claim::new(messages.to_vec(), ()));
    lineup.release();
    assert!(lineup.next_batch(10).is_none());
    assert_eq!(lineup.take_decided().unwrap().verdicts, vec![Verdict::Released; 4]);
}

#[test]
fn without_order_everything_goes_at_once() {
    let mut lineup = Lineup::new(Order::None, Group::None);
    lineup.admit(1, claim(&["a", "a"]).with_held(vec![true, false]));
    assert_eq!(lineup.next_batch(10).unwrap().messages.len(), 2);
}

#[test]
fn what_follows_a_failure_stays_behind_across_claims_until_the_source_knows() {
    let mut lineup = Lineup::new(Order::Key, Group::None);
    lineup.admit(1, claim(&["a", "a"]));
    lineup.admit(2, claim(&["a", "b"]));
    let batch = lineup.next_batch(10).unwrap();
    assert_eq!(keys(&batch), ["a", "b"]);
    lineup.decide(batch.tickets[0], Some("a"), retry());
    let decided = lineup.take_decided().unwrap();
    assert_eq!(decided.verdicts, [retry(), Verdict::Behind]);
    // Claim 3 was begun before claim 1 was settled: the source could not flag its message.
    lineup.settled(1, 3, true);
    lineup.admit(3, claim(&["a"]));
    lineup.decide(batch.tickets[1], Some("b"), Verdict::Done);
    assert_eq!(lineup.take_decided().unwrap().verdicts, [Verdict::Behind, Verdict::Done]);
    lineup.settled(2, 4, true);
    // The first comes again; nothing of its key can be earlier, so no bar is for it.
    lineup.admit(4, claim(&["a"]).of_set_aside());
    assert!(lineup.next_batch(1).is_some());
    assert_eq!(lineup.take_decided().unwrap().verdicts, [Verdict::Behind]);
    lineup.settled(3, 4, false);
    // Claim 5 was begun after all of that was settled: from here on the source flags.
    lineup.admit(5, claim(&["b"]));
    assert!(lineup.next_batch(1).is_some());
}

#[test]
fn a_held_message_bars_its_key_for_what_is_in_the_pipe_already() {
    let mut lineup = Lineup::new(Order::Key, Group::None);
    lineup.admit(1, claim(&["a"]).with_held(vec![true]));
    lineup.admit(2, claim(&["a"]));
    assert!(lineup.next_batch(10).is_none());
    assert_eq!(lineup.take_decided().unwrap().verdicts, [Verdict::Behind]);
}

#[test]
fn a_dead_message_that_does_not_hold_lets_the_next_go() {
    let mut lineup = Lineup::new(Order::Key, Group::None);
    lineup.admit(1, claim(&["a", "a"]));
    let batch = lineup.next_batch(10).unwrap();
    let dead = Verdict::Dead { attempts: 1, cause: Cause::new(code::HANDLER, ""), holds: false };
    lineup.decide(batch.tickets[0], Some("a"), dead);
    assert!(lineup.next_batch(10).is_some());
}

#[test]
fn release_decides_what_is_not_out_and_what_waits_behind_it() {
    let mut lineup = Lineup::new(Order::Key, Group::None);
    lineup.admit(1, claim(&["a", "a", "b", "b", ""]));
    let batch = lineup.next_batch(1).unwrap();
    lineup.release();
    assert!(lineup.next_batch(10).is_none());
    lineup.decide(batch.tickets[0], Some("a"), Verdict::Released);
    assert_eq!(lineup.take_decided().unwrap().verdicts, vec![Verdict::Released; 5]);
}

#[test]
fn tickets_from_before_a_clear_do_nothing() {
    let mut lineup = Lineup::new(Order::Key, Group::None);
    lineup.admit(1, claim(&["a"]));
    let batch = lineup.next_batch(1).unwrap();
    lineup.clear();
    lineup.admit(2, claim(&["a"]));
    lineup.decide(batch.tickets[0], Some("a"), Verdict::Done);
    assert!(lineup.take_decided().is_none());
}

#[test]
fn what_comes_after_one_that_was_released_is_released_too_and_not_set_aside_before_it() {
    let mut lineup = Lineup::new(Order::Key, Group::None);
    lineup.admit(1, claim(&["a"]));
    let batch = lineup.next_batch(10).unwrap();
    lineup.decide(batch.tickets[0], Some("a"), Verdict::Released);
    lineup.admit(2, claim(&["a", "b"]));
    assert_eq!(lineup.take_decided().unwrap().verdicts, [Verdict::Released]);
    lineup.settled(1, 2, false);
    let batch = lineup.next_batch(10).unwrap();
    assert_eq!(keys(&batch), ["b"]);
    decide_all(&mut lineup, &batch, &Verdict::Done);
    assert_eq!(lineup.take_decided().unwrap().verdicts, [Verdict::Released, Verdict::Done]);
    lineup.settled(2, 2, false);
    assert!(lineup.keys.is_empty());
}

#[test]
fn a_message_with_a_defect_is_dead_and_its_key_goes_on() {
    let mut lineup = Lineup::new(Order::Key, Group::None);
    lineup.admit(1, claim(&["a", "a"]).with_defects(vec![(0, Cause::new(code::NO_ID, "none"))]));
    let batch = lineup.next_batch(10).unwrap();
    decide_all(&mut lineup, &batch, &Verdict::Done);
    let verdicts = lineup.take_decided().unwrap().verdicts;
    assert!(matches!(&verdicts[0], Verdict::Dead { holds: false, cause, .. } if cause.code == code::NO_ID));
    assert_eq!(verdicts[1], Verdict::Done);
}

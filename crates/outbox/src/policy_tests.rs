//! What the decisions are, one by one.

use super::*;
use crate::sink::code;

fn cause(code: &'static str) -> Cause {
    Cause::new(code, "x")
}

#[test]
fn delays_double_up_to_the_limit_and_jitter_takes_at_most_half() {
    let backoff = Backoff { first: Duration::from_secs(1), most: Duration::from_secs(30) };
    let seconds: Vec<u64> = (1..=7).map(|tries| backoff.delay(tries, 0.0).as_secs()).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30]);
    assert_eq!(backoff.delay(3, 1.0), Duration::from_secs(2));
    assert_eq!(backoff.delay(u32::MAX, 0.0), Duration::from_secs(30));
}

#[test]
fn a_rejection_spends_an_attempt_and_the_last_one_is_dead() {
    let policy = Policy { attempts: 3, ..Policy::default() };
    let rejected = Outcome::rejected(cause(code::NO_ROUTE));
    assert!(matches!(policy.judge(&rejected, 0, 0.0), Verdict::Retry { attempts: 1, .. }));
    assert!(matches!(policy.judge(&rejected, 1, 0.0), Verdict::Retry { attempts: 2, .. }));
    assert!(matches!(policy.judge(&rejected, 2, 0.0), Verdict::Dead { attempts: 3, holds: true, .. }));
    let refused = Outcome::refused(cause(code::TOO_LARGE));
    assert!(matches!(policy.judge(&refused, 0, 0.0), Verdict::Dead { attempts: 1, .. }));
}

#[test]
fn the_other_side_says_when_to_try_again_but_not_beyond_a_year() {
    for (asked, expected) in [(5, 5), (u64::MAX, 365 * 24 * 60 * 60)] {
        let retry_after = Some(Duration::from_secs(asked));
        let rejection =
            Rejection { cause: cause(code::REFUSED), permanent: false, retry_after, defect: false };
        let verdict = Policy::default().judge(&Outcome::Rejected(rejection), 0, 0.0);
        assert!(matches!(verdict, Verdict::Retry { after, .. } if after.as_secs() == expected));
    }
}

#[test]
fn an_outage_costs_nothing_unless_it_shall_count() {
    let outage = Outcome::Unavailable(cause(code::UNREACHABLE));
    assert_eq!(Policy::default().judge(&outage, 3, 0.0), Verdict::Released);
    let counting = Policy { outage: Outage::Count, ..Policy::default() };
    assert!(matches!(counting.judge(&outage, 3, 0.0), Verdict::Retry { attempts: 4, .. }));
}

#[test]
fn a_dead_message_holds_its_key_only_under_key_order_and_by_choice() {
    let refused = Outcome::refused(cause(code::TOO_LARGE));
    for (order, on_dead, expected) in [
        (Order::Key, OnDead::Hold, true),
        (Order::Key, OnDead::Skip, false),
        (Order::None, OnDead::Hold, false),
    ] {
        let policy = Policy { order, on_dead, ..Policy::default() };
        assert!(matches!(policy.judge(&refused, 0, 0.0), Verdict::Dead { holds, .. } if holds == expected));
    }
}

#[tokio::test(start_paused = true)]
async fn the_breaker_opens_probes_with_longer_delays_and_closes_by_itself() {
    let mut breaker = Breaker::new(&Policy::default());
    let outage = Outcome::Unavailable(cause(code::UNREACHABLE));
    let now = Instant::now();
    let opened = |seconds| {
        Some(Change::Opened { cause: cause(code::UNREACHABLE), wait: Duration::from_secs(seconds) })
    };
    assert_eq!(breaker.observe(&outage, 0, now, 0.0), opened(1));
    assert_eq!(breaker.observe(&outage, 0, now, 0.0), None, "told once");
    assert_eq!(breaker.observe(&Outcome::Delivered, 0, now, 0.0), None, "a late success proves nothing");
    breaker.start_probe();
    assert_eq!(breaker.observe(&outage, 0, now, 0.0), opened(2));
    breaker.start_probe();
    assert_eq!(breaker.observe(&Outcome::Delivered, 0, now, 0.0), Some(Change::Closed));
    assert_eq!(breaker.observe(&outage, 0, now, 0.0), opened(1), "delays start again");
}

#[test]
fn a_streak_of_one_cause_opens_it_and_only_a_delivery_closes_it() {
    let mut breaker = Breaker::new(&Policy { streak: 3, ..Policy::default() });
    let now = Instant::now();
    let rejected = Outcome::rejected(cause(code::NO_ROUTE));
    let other = Outcome::rejected(cause(code::REFUSED));
    assert_eq!(breaker.observe(&rejected, 0, now, 0.0), None);
    assert_eq!(breaker.observe(&rejected, 0, now, 0.0), None);
    assert_eq!(breaker.observe(&other, 0, now, 0.0), None, "another cause starts anew");
    assert_eq!(breaker.observe(&rejected, 0, now, 0.0), None);
    assert_eq!(breaker.observe(&rejected, 0, now, 0.0), None);
    assert_eq!(breaker.observe(&rejected, 1, now, 0.0), None, "it was rejected before, which is nothing new");
    assert!(matches!(breaker.observe(&rejected, 0, now, 0.0), Some(Change::Opened { .. })));
    assert!(breaker.covers(&rejected) && !breaker.covers(&other));
    breaker.start_probe();
    assert!(!breaker.covers(&rejected), "a probe spends its attempt, so the next one is another message");
    assert!(matches!(breaker.observe(&rejected, 0, now, 0.0), Some(Change::Opened { .. })));
    breaker.start_probe();
    assert_eq!(breaker.observe(&Outcome::Delivered, 0, now, 0.0), Some(Change::Closed));
}

#[test]
fn what_was_judged_before_the_sink_was_asked_counts_neither_for_nor_against_it() {
    let mut breaker = Breaker::new(&Policy { streak: 3, ..Policy::default() });
    let now = Instant::now();
    let (defect, rejected) = (Outcome::defect(cause(code::UNFIT)), Outcome::rejected(cause(code::UNFIT)));
    assert!(matches!(Policy::default().judge(&defect, 0, 0.0), Verdict::Dead { attempts: 1, .. }));
    for _ in 0..50 {
        assert_eq!(breaker.observe(&defect, 0, now, 0.0), None);
    }
    assert_eq!(breaker.observe(&rejected, 0, now, 0.0), None);
    assert_eq!(breaker.observe(&rejected, 0, now, 0.0), None);
    assert_eq!(breaker.observe(&defect, 0, now, 0.0), None);
    let change = breaker.observe(&rejected, 0, now, 0.0);
    assert!(matches!(change, Some(Change::Opened { .. })), "a streak goes on behind it");
    assert!(breaker.covers(&rejected) && !breaker.covers(&defect), "it is dead whatever the sink does");
    breaker.start_probe();
    assert_eq!(breaker.observe(&defect, 0, now, 0.0), None, "a probe that told nothing");
    assert_eq!(breaker.probe_at(), Some(now), "the next one is a probe, at once");
}

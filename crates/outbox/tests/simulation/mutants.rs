//! That the simulation finds faults: ends that break a clause on purpose are found out, and for the right reason.

use crate::lie::Lie;
use crate::life::live;
use crate::lives::first_broken;

/// A lie is found within so many seeds, a hundredth of what CI lives through.
const SEEDS: u64 = 1_000;

/// Expects that the lie is found, as one of these clauses.
fn is_found(lie: Lie, clauses: &[&str]) {
    let Some(seed) = first_broken(0..SEEDS, lie) else { panic!("{lie:?} is not found in {SEEDS} seeds") };
    let violation = live(seed, lie, false).violation.expect("a seed is repeatable");
    assert!(clauses.contains(&violation.clause), "{lie:?} is found as {violation:?}, not as {clauses:?}");
}

macro_rules! found {
    ($($name:ident: $lie:ident as $($clause:literal)|+;)+) => {
        $(#[test]
        fn $name() {
            is_found(Lie::$lie, &[$($clause),+]);
        })+
    };
}

found! {
    answers_in_the_wrong_order_are_found: ShuffledOutcomes as "P1" | "P2" | "P3" | "P4";
    delivered_without_knowing_is_found: DeliveredUnknown as "P1" | "P4";
    neighbours_that_pay_are_found: RejectedTogether as "P1" | "P2" | "P3" | "P4";
    an_outage_that_is_charged_is_found: ChargedOutage as "P2" | "P3" | "P4" | "P9";
    a_sink_that_never_answers_is_found: Silence as "P11";
    a_message_that_is_changed_is_found: ChangedPayload as "S13";
    a_message_that_is_passed_over_is_found: PassedOver as "S1" | "P11";
    a_message_in_two_claims_is_found: HandedOutTwice as "S2" | "P5";
    a_done_message_that_comes_again_is_found: ForgottenDone as "S3" | "S4" | "S6";
    a_retry_that_comes_early_is_found: EarlyRetry as "S4";
    lost_attempts_are_found: ForgottenAttempts as "S4";
    a_dead_message_that_comes_again_is_found: RisenDead as "S5";
    a_key_that_is_not_held_is_found: ForgottenHeld as "S6";
    a_key_in_the_wrong_order_is_found: Reversed as "S6" | "S8";
    a_settle_that_is_not_written_is_found: UnwrittenSettle as "P11" | "S1" | "S3" | "S4" | "S6";
    a_settle_of_a_lost_claim_is_found: SettledLost as "S10";
    a_source_that_stays_closed_is_found: KeptOnClose as "S1" | "P11";
}

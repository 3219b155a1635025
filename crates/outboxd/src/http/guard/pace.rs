//! How often somebody may try to sign in.
//!
//! A few failures are free, of a name from one address and of an address. After that each failure doubles the wait before
//! the next attempt. Who fails elsewhere does not keep somebody from signing in, unless so many do that it is guessing from
//! many addresses. An attempt counts as failed from its beginning, so that many at a time are not more than one after the
//! other.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Failures of one name from one address before that has to wait.
const FREE_PER_PAIR: u32 = 5;
/// The same for an address, behind which there may be several people.
const FREE_PER_ADDRESS: u32 = 10;
/// Failures of one name from all addresses in a [`WINDOW`]; who comes after that waits until it is over.
const MOST_PER_NAME: u32 = 50;
const WINDOW: Duration = Duration::from_secs(5 * 60);
/// The first wait.
const FIRST: Duration = Duration::from_secs(10);
/// The longest.
const LONGEST: Duration = Duration::from_secs(5 * 60);
/// Failures are forgotten when there was none for so long.
const FORGET: Duration = Duration::from_secs(15 * 60);
/// So many names, addresses and pairs of them are kept; one with the fewest failures makes room.
const KEPT: usize = 4_096;

/// Who failed how often.
#[derive(Default)]
pub(super) struct Pace {
    pairs: HashMap<(String, IpAddr), Failures>,
    addresses: HashMap<IpAddr, Failures>,
    names: HashMap<String, Failures>,
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    first: Instant,
    last: Instant,
}

impl Pace {
    /// Begins an attempt, or tells how long to wait before the next. What has to wait does not count.
    pub(super) fn attempt(&mut self, name: &str, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let address = network(address);
        let pair = (name.to_owned(), address);
        let by_pair = wait(self.pairs.get(&pair), FREE_PER_PAIR, now);
        let by_address = wait(self.addresses.get(&address), FREE_PER_ADDRESS, now);
        let by_name = rest_of_window(self.names.get(name), now);
        let longest = by_pair.max(by_address).max(by_name);
        if !longest.is_zero() {
            return Err(longest);
        }
        count(&mut self.pairs, pair, now, |failures| is_old(failures, now));
        count(&mut self.addresses, address, now, |failures| is_old(failures, now));
        count(&mut self.names, name.to_owned(), now, |failures| is_over(failures, now));
        Ok(())
    }

    /// The attempt was right. An address gets back only that attempt: who has one password must not guess another. So does
    /// the name: others may be guessing it elsewhere.
    pub(super) fn succeeded(&mut self, name: &str, address: IpAddr) {
        let address = network(address);
        self.pairs.remove(&(name.to_owned(), address));
        let counted = [self.addresses.get_mut(&address), self.names.get_mut(name)];
        for failures in counted.into_iter().flatten() {
            failures.count = failures.count.saturating_sub(1);
        }
    }
}

fn wait(failures: Option<&Failures>, free: u32, now: Instant) -> Duration {
    let Some(failures) = failures.filter(|failures| !is_old(failures, now)) else { return Duration::ZERO };
    let Some(beyond) = failures.count.checked_sub(free) else { return Duration::ZERO };
    let whole = FIRST.saturating_mul(2_u32.saturating_pow(beyond)).min(LONGEST);
    (failures.last + whole).saturating_duration_since(now)
}

/// How long a name still has to wait that was tried as often as it may be.
fn rest_of_window(failures: Option<&Failures>, now: Instant) -> Duration {
    let full = failures.filter(|failures| failures.count >= MOST_PER_NAME);
    full.map_or(Duration::ZERO, |failures| (failures.first + WINDOW).saturating_duration_since(now))
}

/// Counts one more, or the first where what was counted is `past`.
fn count<K: Hash + Eq + Clone>(
    all: &mut HashMap<K, Failures>,
    key: K,
    now: Instant,
    past: impl Fn(&Failures) -> bool,
) {
    if !all.contains_key(&key) && all.len() >= KEPT {
        all.retain(|_, failures| !past(failures));
        if all.len() >= KEPT {
            let quiet = all
                .iter()
                .min_by_key(|(_, failures)| (failures.count, failures.last))
                .map(|(key, _)| key.clone());
            quiet.and_then(|quiet| all.remove(&quiet));
        }
    }
    let failures = all.entry(key).or_insert(Failures { count: 0, first: now, last: now });
    if past(failures) {
        *failures = Failures { count: 0, first: now, last: now };
    }
    (failures.count, failures.last) = (failures.count.saturating_add(1), now);
}

fn is_old(failures: &Failures, now: Instant) -> bool {
    now.saturating_duration_since(failures.last) >= FORGET
}

fn is_over(failures: &Failures, now: Instant) -> bool {
    now.saturating_duration_since(failures.first) >= WINDOW
}

/// Somebody has a whole network of IPv6 addresses, and counts once.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(four) => IpAddr::V4(four),
        IpAddr::V6(six) => IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn after_five_failures_a_name_waits_longer_each_time_where_it_failed() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        let from = address("192.0.2.1");
        for _ in 0..5 {
            assert_eq!(pace.attempt("anna", from, now), Ok(()));
        }
        for wait in [10, 20, 40, 80, 160] {
            assert_eq!(pace.attempt("anna", from, now), Err(secs(wait)));
            assert_eq!(pace.attempt("anna", from, now + secs(wait - 1)), Err(secs(1)));
            now += secs(wait);
            assert_eq!(pace.attempt("anna", from, now), Ok(()));
        }
        assert_eq!(pace.attempt("anna", from, now), Err(secs(300)), "and no longer than that");
        assert_eq!(pace.attempt("anna", address("198.51.100.1"), now), Ok(()), "anna herself is elsewhere");
        assert_eq!(pace.attempt("anna", from, now + FORGET), Ok(()), "it is forgotten");
    }

    #[test]
    fn one_name_is_tried_fifty_times_in_five_minutes_wherever_from() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        for n in 0..50 {
            let at = now + secs(n);
            assert_eq!(pace.attempt("anna", address(&format!("192.0.2.{n}")), at), Ok(()));
        }
        let elsewhere = address("198.51.100.1");
        assert_eq!(pace.attempt("anna", elsewhere, now + secs(50)), Err(secs(250)));
        assert_eq!(pace.attempt("ben", elsewhere, now + secs(50)), Ok(()), "somebody else does not wait");
        assert_eq!(pace.attempt("anna", elsewhere, now + WINDOW), Ok(()));
        assert_eq!(pace.names["anna"].count, 1, "it is counted anew");
    }

    #[test]
    fn after_ten_failures_an_address_waits_whatever_the_name() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let from = address("2001:db8::1");
        for n in 0..10 {
            assert_eq!(pace.attempt(&format!("name-{n}"), from, now), Ok(()));
        }
        assert_eq!(pace.attempt("other", from, now), Err(secs(10)));
        assert_eq!(
            pace.attempt("other", address("2001:db8::ffff:2"), now),
            Err(secs(10)),
            "the same network"
        );
        assert_eq!(pace.attempt("other", address("2001:db8:0:1::1"), now), Ok(()), "another network");
    }

    #[test]
    fn a_success_clears_what_failed_there_and_neither_the_address_nor_the_name() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let from = address("192.0.2.1");
        for _ in 0..3 {
            for _ in 0..2 {
                assert_eq!(pace.attempt("anna", from, now), Ok(()));
            }
            pace.succeeded("anna", from);
        }
        assert!(pace.pairs.is_empty());
        assert_eq!(pace.addresses[&from].count, 3, "one of two was right, three times");
        assert_eq!(pace.names["anna"].count, 3);
    }

    #[test]
    fn many_names_and_addresses_take_no_more_memory_and_the_loud_ones_stay() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        for n in 0..u32::try_from(KEPT).expect("it fits") * 2 {
            let from = IpAddr::from((0x0a00_0000 + n).to_be_bytes());
            let now = now + Duration::from_millis(u64::from(n));
            assert_eq!(pace.attempt(&format!("name-{n}"), from, now), Ok(()));
            let _ = pace.attempt("anna", from, now);
        }
        assert!(pace.names.len() <= KEPT && pace.addresses.len() <= KEPT && pace.pairs.len() <= KEPT);
        assert_eq!(pace.names["anna"].count, MOST_PER_NAME, "who is tried all the time is not forgotten");
    }
}

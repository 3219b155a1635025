//! How often somebody may try to sign in.
//!
//! A few failures are free, by name and by address. After that each failure doubles the wait before the next attempt. An
//! attempt counts as failed from its beginning, so that many at a time are not more than one after the other.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Failures of one name before anybody has to wait.
const FREE_PER_NAME: u32 = 5;
/// The same for an address, behind which there may be several people.
const FREE_PER_ADDRESS: u32 = 10;
/// The first wait.
const FIRST: Duration = Duration::from_secs(10);
/// The longest.
const LONGEST: Duration = Duration::from_secs(5 * 60);
/// Failures are forgotten when there was none for so long.
const FORGET: Duration = Duration::from_secs(15 * 60);
/// So many names and so many addresses are kept; the one that is quiet for longest makes room.
const KEPT: usize = 4_096;

/// Who failed how often.
#[derive(Default)]
pub(super) struct Pace {
    names: HashMap<String, Failures>,
    addresses: HashMap<IpAddr, Failures>,
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Pace {
    /// Begins an attempt, or tells how long to wait before the next. What has to wait does not count.
    pub(super) fn attempt(&mut self, name: &str, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let address = network(address);
        let by_name = wait(self.names.get(name), FREE_PER_NAME, now);
        let by_address = wait(self.addresses.get(&address), FREE_PER_ADDRESS, now);
        let longer = by_name.max(by_address);
        if !longer.is_zero() {
            return Err(longer);
        }
        count(&mut self.names, name.to_owned(), now);
        count(&mut self.addresses, address, now);
        Ok(())
    }

    /// The attempt was right. An address gets back only that attempt: who has one password must not guess another.
    pub(super) fn succeeded(&mut self, name: &str, address: IpAddr) {
        self.names.remove(name);
        if let Some(failures) = self.addresses.get_mut(&network(address)) {
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

fn count<K: Hash + Eq + Clone>(all: &mut HashMap<K, Failures>, key: K, now: Instant) {
    if !all.contains_key(&key) && all.len() >= KEPT {
        all.retain(|_, failures| !is_old(failures, now));
        if all.len() >= KEPT {
            let quiet = all.iter().min_by_key(|(_, failures)| failures.last).map(|(key, _)| key.clone());
            quiet.and_then(|quiet| all.remove(&quiet));
        }
    }
    let failures = all.entry(key).or_insert(Failures { count: 0, last: now });
    let before = if is_old(failures, now) { 0 } else { failures.count };
    *failures = Failures { count: before.saturating_add(1), last: now };
}

fn is_old(failures: &Failures, now: Instant) -> bool {
    now.saturating_duration_since(failures.last) >= FORGET
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
    fn after_five_failures_a_name_waits_longer_each_time() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for n in 0..5 {
            assert_eq!(pace.attempt("anna", address(&format!("192.0.2.{n}")), now), Ok(()));
        }
        for (n, wait) in [10, 20, 40, 80, 160, 300, 300].into_iter().enumerate() {
            let from = address(&format!("198.51.100.{n}"));
            assert_eq!(pace.attempt("anna", from, now), Err(secs(wait)), "whoever asks");
            assert_eq!(pace.attempt("anna", from, now + secs(wait - 1)), Err(secs(1)));
            now += secs(wait);
            assert_eq!(pace.attempt("anna", from, now), Ok(()));
        }
        assert_eq!(pace.attempt("ben", address("198.51.100.99"), now), Ok(()), "somebody else does not wait");
        assert_eq!(pace.attempt("anna", address("198.51.100.99"), now + FORGET), Ok(()), "it is forgotten");
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
    fn a_success_clears_the_name_and_not_the_address() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let from = address("192.0.2.1");
        for _ in 0..3 {
            for _ in 0..2 {
                assert_eq!(pace.attempt("anna", from, now), Ok(()));
            }
            pace.succeeded("anna", from);
        }
        assert!(pace.names.is_empty());
        assert_eq!(pace.addresses[&from].count, 3, "one of two was right, three times");
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
        assert!(pace.names.len() <= KEPT && pace.addresses.len() <= KEPT);
        assert!(pace.names.contains_key("anna"), "who is tried all the time is not forgotten");
    }
}

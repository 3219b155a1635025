//! What is to be said of any server of a database, by what was asked of it. Pure.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use crate::finding::Finding;

/// Beyond this the clocks of two machines do not just drift.
const OFFSET: f64 = 1.0;

/// So many seconds a clock is ahead of the one here, if it was asked at `before` and has just answered. The answer is
/// taken to be from the middle of that time.
pub(crate) fn offset(clock: f64, before: SystemTime) -> f64 {
    let here = before + before.elapsed().unwrap_or_default() / 2;
    clock - here.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Whether ages are right, which are told by two clocks.
pub(crate) fn clock(offset: f64) -> Finding {
    if offset.abs() <= OFFSET {
        return Finding::ok("clock", format!("{offset:+.1} s from the one here"));
    }
    Finding::warning("clock", format!("{offset:+.1} s from the one here: ages and lags are wrong by that"))
        .fix("synchronise both machines (NTP)")
}

/// Whether others can read along.
pub(crate) fn encryption(encrypted: bool, protocol: Option<String>, local: bool, fix: &str) -> Finding {
    match (encrypted, local) {
        (true, _) => Finding::ok("encryption", protocol.unwrap_or_else(|| "TLS".to_owned())),
        (false, true) => Finding::ok("encryption", "none, and nothing leaves this machine"),
        (false, false) => Finding::warning("encryption", "none, and the server is another machine").fix(fix),
    }
}

/// Whether a host is this machine.
pub(crate) fn is_local(host: &str) -> bool {
    host == "localhost"
        || host.starts_with('/')
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// What waits, and for how long.
pub(crate) fn backlog(pending: u64, oldest: Option<f64>) -> Finding {
    let count = if pending >= crate::admin::COUNTED_AT_MOST {
        format!("{pending} or more")
    } else {
        pending.to_string()
    };
    match oldest {
        Some(seconds) => {
            let age = Duration::from_secs(seconds.max(0.0) as u64);
            Finding::ok("pending", format!("{count}, the oldest for {age:?}"))
        }
        None => Finding::ok("pending", count),
    }
}

/// What waits for a person.
pub(crate) fn dead_letters(dead: u64) -> Finding {
    if dead == 0 {
        return Finding::ok("dead", "none");
    }
    Finding::warning("dead", format!("{dead} wait for a person")).fix("outboxd list --state dead")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Level;

    #[test]
    fn clocks_that_differ_by_more_than_a_second_are_told() {
        for (offset, level) in
            [(-1.0, Level::Ok), (-0.2, Level::Ok), (1.1, Level::Warning), (-60.0, Level::Warning)]
        {
            assert_eq!(clock(offset).level, level, "{offset}");
        }
        assert!(clock(-60.0).evidence.starts_with("-60.0 s"));
        let now = SystemTime::now();
        let there = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64() + 5.0;
        assert!((offset(there, now) - 5.0).abs() < 0.5);
    }

    #[test]
    fn what_leaves_this_machine_is_encrypted() {
        assert_eq!(encryption(false, None, true, "").level, Level::Ok);
        assert_eq!(encryption(false, None, false, "").level, Level::Warning);
        assert_eq!(encryption(true, Some("TLSv1.3".to_owned()), false, "").evidence, "TLSv1.3");
        assert!(is_local("127.0.0.1") && is_local("/run/db") && !is_local("db.example.com"));
    }
}

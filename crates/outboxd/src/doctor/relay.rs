//! A look at this program, and at the others that run the same pipes. What was read is judged by functions that ask nobody.

use std::collections::BTreeSet;

use outbox::beats::Seen;
use outbox::{ErrorKind, Finding};

use crate::ops::Office;
use crate::ops::instances::OFFLINE_AFTER;
use crate::plan::{Layout, Plan};
use crate::quantity::show_age;

/// What the program itself has open: its log, its runtime, a file or two.
const OWN: u64 = 64;

/// The server takes so many connections at a time.
const CLIENTS: u64 = 512;

/// A pool of a database grows up to this.
const POOL: u64 = 8;

/// Looks at the limits of this process and at the instances that tell of themselves.
pub async fn examine(office: &Office) -> Vec<Finding> {
    let mut findings = vec![files(open_files_limit(), needed(&office.plan))];
    let Some(audit) = &office.plan.audit else {
        let unseen = "not looked at: there is no database where instances tell of themselves";
        findings.push(
            Finding::ok("instances", unseen)
                .fix("add [audit] with on = \"connection\", then `outboxd migrate`"),
        );
        return findings;
    };
    let seen = async { office.databases.beats(&audit.connection).await?.list().await };
    match seen.await {
        Ok(seen) => {
            findings.push(instances(&seen));
            findings.push(versions(&seen, env!("CARGO_PKG_VERSION")));
        }
        Err(error) if error.kind() == ErrorKind::NotMigrated => {
            let unseen = format!("not looked at: '{}' has no table for it", audit.connection.name);
            findings.push(Finding::ok("instances", unseen).fix("outboxd migrate"));
        }
        Err(error) => findings.push(Finding::error("instances", &error)),
    }
    findings
}

/// How many files this process may have open, where the system tells.
fn open_files_limit() -> Option<u64> {
    soft_limit(&std::fs::read_to_string("/proc/self/limits").ok()?)
}

/// The soft limit is the first of the two.
fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

/// How many connections and files the plan can take at a time, if all is busy.
fn needed(plan: &Plan) -> u64 {
    let clients = if plan.http.is_some() { CLIENTS } else { 0 };
    let pipes = plan.pipes.values().map(|pipe| {
        let lanes = u64::from(pipe.options.lanes.max(1));
        match plan.sources.get(&pipe.from).map(|source| &source.layout) {
            // A connection for every claim of every lane.
            Some(Layout::Table(_)) => (u64::from(pipe.options.depth) + 1) * lanes + 2,
            Some(Layout::Log(_)) => POOL + lanes,
            _ => POOL,
        }
    });
    let sinks = plan.pipes.values().map(|pipe| u64::from(pipe.options.concurrency));
    OWN + clients + pipes.sum::<u64>() + sinks.sum::<u64>()
}

fn files(limit: Option<u64>, needed: u64) -> Finding {
    const WHAT: &str = "file limit";
    match limit {
        None => Finding::ok(WHAT, "not looked at: this system does not tell"),
        Some(u64::MAX) => Finding::ok(WHAT, format!("no limit; {needed} may be needed")),
        Some(limit) if limit >= needed => {
            Finding::ok(WHAT, format!("{limit} open files, of which {needed} may be needed"))
        }
        Some(limit) => {
            let evidence = format!(
                "{limit} open files and connections, and {needed} may be needed: beyond the limit nothing connects"
            );
            let wanted = (needed * 2).next_power_of_two().max(4_096);
            Finding::warning(WHAT, evidence)
                .fix(format!("ulimit -n {wanted}; in a unit of systemd: LimitNOFILE={wanted}"))
        }
    }
}

fn is_offline(seen: &Seen) -> bool {
    !seen.stopped && seen.age > OFFLINE_AFTER
}

/// Who runs the pipes, and who is gone without a word.
fn instances(seen: &[Seen]) -> Finding {
    const WHAT: &str = "instances";
    let named = |wanted: &dyn Fn(&Seen) -> bool| -> BTreeSet<&str> {
        seen.iter().filter(|seen| wanted(seen)).map(|seen| seen.beat.instance.as_str()).collect()
    };
    let alive = named(&|seen| !seen.stopped && !is_offline(seen));
    let running = match alive.len() {
        0 => "nobody runs a pipe".to_owned(),
        count => format!("{count} running: {}", alive.into_iter().collect::<Vec<_>>().join(", ")),
    };
    let gone: Vec<&Seen> = seen.iter().filter(|seen| is_offline(seen)).collect();
    if gone.is_empty() {
        return Finding::ok(WHAT, running);
    }
    let named = gone.iter().map(|seen| {
        let age = show_age(seen.age.as_secs_f64());
        format!("{} (pipe '{}', silent for {age})", seen.beat.instance, seen.beat.pipe)
    });
    let evidence = format!("offline: {}; {running}", named.collect::<Vec<_>>().join(", "));
    let fix = "look at that machine: it was killed, hangs, or is cut off from this database; the entry goes after a day";
    Finding::warning(WHAT, evidence).fix(fix)
}

/// Whether all who run have the version of this program.
fn versions(seen: &[Seen], ours: &str) -> Finding {
    const WHAT: &str = "versions";
    let running = seen.iter().filter(|seen| !seen.stopped && !is_offline(seen));
    let others: BTreeSet<(&str, &str)> = running
        .filter(|seen| seen.beat.version != ours)
        .map(|seen| (seen.beat.instance.as_str(), seen.beat.version.as_str()))
        .collect();
    if others.is_empty() {
        return Finding::ok(WHAT, format!("all that run have {ours}"));
    }
    let named: Vec<String> =
        others.iter().map(|(instance, version)| format!("{instance} has {version}")).collect();
    let evidence = format!("this program is {ours}, but {}", named.join(", "));
    Finding::warning(WHAT, evidence)
        .fix("install one version everywhere, and restart the instances one by one")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use outbox::Level;
    use outbox::beats::{Beat, State};

    use super::*;

    fn seen(instance: &str, version: &str, age: u64, stopped: bool) -> Seen {
        let beat = Beat {
            instance: instance.to_owned(),
            pipe: "relay".to_owned(),
            version: version.to_owned(),
            started_at: Timestamp::UNIX_EPOCH,
            state: State::Running,
            cause: None,
            last_message_at: None,
            delivered: 0,
            failed: 0,
            in_flight: 0,
        };
        Seen { beat, age: Duration::from_secs(age), stopped }
    }

    #[test]
    fn a_limit_below_what_is_needed_is_a_warning_with_the_one_to_set() {
        assert_eq!(files(Some(1_024), 1_024).level, Level::Ok);
        let found = files(Some(1_023), 1_024);
        assert_eq!(found.level, Level::Warning);
        assert!(found.fix.is_some_and(|fix| fix.contains("LimitNOFILE=4096")));
        assert_eq!((files(None, 9).level, files(Some(u64::MAX), 9).level), (Level::Ok, Level::Ok));
    }

    #[test]
    fn the_soft_limit_is_read_as_the_system_writes_it() {
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024     524288    files\n";
        assert_eq!(soft_limit(limits), Some(1_024));
        assert_eq!(soft_limit("Max open files unlimited unlimited files"), Some(u64::MAX));
        assert_eq!(soft_limit("nothing"), None);
    }

    #[test]
    fn d8_an_instance_that_is_gone_without_a_word_is_a_warning() {
        assert_eq!(instances(&[]).evidence, "nobody runs a pipe");
        let well = [seen("a", "1", 1, false), seen("b", "1", 500, true)];
        assert_eq!(instances(&well).evidence, "1 running: a");
        let gone = instances(&[seen("a", "1", 1, false), seen("c", "1", 500, false)]);
        assert_eq!(gone.level, Level::Warning);
        assert!(gone.evidence.starts_with("offline: c (pipe 'relay', silent for 8m"), "{}", gone.evidence);
    }

    #[test]
    fn only_instances_that_run_count_as_another_version() {
        let old = [seen("a", "1", 1, false), seen("b", "0", 500, true), seen("c", "0", 500, false)];
        assert_eq!(versions(&old, "1").level, Level::Ok);
        let mixed = versions(&[seen("a", "0.9", 1, false)], "1");
        assert_eq!(
            (mixed.level, mixed.evidence.as_str()),
            (Level::Warning, "this program is 1, but a has 0.9")
        );
    }
}

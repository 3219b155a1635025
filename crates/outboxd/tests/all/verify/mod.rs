//! `outboxd verify`: on every pair of servers, with servers that die, and where something is really wrong.

mod hooks;
mod pairs;
mod usage;
mod wrong;

use std::path::Path;

use serde_json::Value;

use crate::program::{Program, Ran};

/// The report of a run, which must have kept every promise.
fn holds(ran: &Ran) -> Value {
    let report = report(ran);
    // Shown when something fails afterwards, and with --nocapture.
    eprintln!("{report:#}");
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert_eq!(report["holds"], true, "{ran:#?}");
    for nothing in ["lost", "phantom", "out_of_order", "effects_missing", "effects_twice"] {
        assert_eq!(count(&report, nothing), 0, "{nothing}: {ran:#?}");
    }
    assert!(count(&report, "duplicates") <= count(&report, "duplicate_bound"), "{ran:#?}");
    assert!(count(&report, "events") > 0 && count(&report, "rolled_back") > 0, "{ran:#?}");
    report
}

fn report(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:#?}"))
}

fn count(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("{name}: {report:#}"))
}

/// Runs `verify` with these flags, as JSON.
fn run(program: &Program, flags: &[&str]) -> Ran {
    let mut args = vec!["verify", "--format", "json"];
    args.extend(flags);
    program.run(&args)
}

/// How many processes have this path on their command line.
fn users_of(path: &Path) -> usize {
    let path = path.to_str().unwrap().as_bytes();
    let processes =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path().join("cmdline")));
    let lines = processes.filter_map(|file| std::fs::read(file).ok());
    lines.filter(|line| line.windows(path.len()).any(|part| part == path)).count()
}

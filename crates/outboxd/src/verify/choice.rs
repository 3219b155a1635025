//! Which faults a run has, and why not the others.

use std::path::Path;

use serde::Serialize;

use super::fault::{Fault, Side};
use super::place::{Network, Servers};
use crate::connection::Kind;
use crate::mistake::did_you_mean;
use crate::trouble::Trouble;

/// Where distributions put the library that shifts a clock.
const CLOCKS: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
];

/// The library that shifts a clock, if it is installed.
pub(super) fn clock() -> Option<String> {
    CLOCKS.into_iter().find(|path| Path::new(path).exists()).map(str::to_owned)
}

/// Asked for alone it means that nothing is broken but what hooks break.
const NONE: &str = "none";

/// A fault that does not happen, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct LeftOut {
    pub(super) fault: String,
    pub(super) reason: String,
}

/// The faults of a run.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) faults: Vec<Fault>,
    pub(super) left_out: Vec<LeftOut>,
}

/// Those that were asked for, or all; without those that cannot be. A hook is always meant: somebody wrote it for this run.
pub(super) fn choose(
    asked: &[String],
    hooks: &[(String, String)],
    obstacle: &dyn Fn(&Fault) -> Option<String>,
) -> Result<Choice, Trouble> {
    let hooks = hooks.iter().enumerate().map(|(number, (name, _))| Fault::Hook(number, name.clone()));
    let all: Vec<Fault> = Fault::KNOWN.into_iter().chain(hooks).collect();
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        let help = "give the hook another name";
        return Err(Trouble::usage(format!("there are two faults of the name '{}'", twice.1), help));
    }
    let is_none = matches!(asked, [none] if none == NONE);
    if let Some(unknown) = asked.iter().find(|name| !is_none && !names.contains(name)) {
        let help = did_you_mean(unknown, names.iter().map(String::as_str));
        return Err(Trouble::usage(format!("there is no fault '{unknown}'"), help));
    }
    let mut choice = Choice { faults: Vec::new(), left_out: Vec::new() };
    let is_meant = |fault: &Fault| {
        matches!(fault, Fault::Hook(..)) || asked.is_empty() || asked.contains(&fault.to_string())
    };
    for fault in all.into_iter().filter(is_meant) {
        match obstacle(&fault) {
            None => choice.faults.push(fault),
            Some(reason) => choice.left_out.push(LeftOut { fault: fault.to_string(), reason }),
        }
    }
    match choice.left_out.first() {
        Some(LeftOut { fault, reason }) if choice.faults.is_empty() => {
            Err(Trouble::usage(format!("the fault '{fault}' cannot be had here: {reason}"), "choose others"))
        }
        _ => Ok(choice),
    }
}

/// Why a fault cannot be had with these servers.
pub(super) fn obstacle(fault: &Fault, servers: &Servers, network: &Network) -> Option<String> {
    let is_sqlite = servers.database.kind == Kind::Sqlite;
    let reason = match fault {
        Fault::Cut(side) | Fault::Freeze(side) | Fault::Slow(side) | Fault::CutAfter(side) => {
            return network.side(*side).err().map(str::to_owned);
        }
        Fault::Unbind if servers.side(Side::Broker).is_none_or(|broker| broker.kind != Kind::Amqp) => {
            "only an exchange of RabbitMQ has bindings"
        }
        Fault::Clock if is_sqlite => "SQLite has no clock but that of the machine, which all relays share",
        Fault::Clock if clock().is_none() => "libfaketime is not installed",
        Fault::Disk if !is_sqlite => "the disk is the server's; fill it with a --hook",
        Fault::Column if is_sqlite => "only done on PostgreSQL",
        _ => return None,
    };
    Some(reason.to_owned())
}

/// What only the owner of a server can break, unless there is a hook for it.
pub(super) fn left_to_hooks(servers: &Servers, hooks: &[(String, String)]) -> Vec<LeftOut> {
    let reason = |server: &str| format!("{server} is not ours to break; add --hook NAME=COMMAND");
    let mut left = Vec::new();
    if hooks.is_empty() && servers.database.kind == Kind::Postgres {
        left.push(LeftOut { fault: "database-restart".to_owned(), reason: reason("the database") });
    }
    if let Some(broker) = servers.broker.as_ref().filter(|_| hooks.is_empty()) {
        left.push(LeftOut { fault: "broker-restart".to_owned(), reason: reason("the broker") });
        if broker.kind == Kind::Amqp {
            left.push(LeftOut { fault: "memory-alarm".to_owned(), reason: reason("the broker") });
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(choice: &Choice) -> Vec<String> {
        choice.faults.iter().map(ToString::to_string).collect()
    }

    fn asked(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_are_chosen_unless_some_are_asked_for_or_cannot_be() {
        let hooks = [("outage".to_owned(), "true".to_owned())];
        let all = choose(&[], &hooks, &|_| None).expect("it is there");
        assert_eq!(all.faults.len(), Fault::KNOWN.len() + 1);
        let some = choose(&asked(&["outage", "kill"]), &hooks, &|_| None).expect("it is there");
        assert_eq!(names(&some), ["kill", "outage"]);
        let unnamed = choose(&asked(&["kill"]), &hooks, &|_| None).expect("it is there");
        assert_eq!(names(&unnamed), ["kill", "outage"]);
        let no_disk = |fault: &Fault| (*fault == Fault::Disk).then(|| "why".to_owned());
        let most = choose(&[], &[], &no_disk).expect("it is there");
        assert_eq!(most.left_out, [LeftOut { fault: "disk".to_owned(), reason: "why".to_owned() }]);
        assert!(!names(&most).contains(&"disk".to_owned()));
        assert!(choose(&asked(&["none"]), &[], &|_| None).expect("it is there").faults.is_empty());
        let hook = choose(&asked(&["none"]), &hooks, &|_| None).expect("it is there");
        assert_eq!(names(&hook), ["outage"]);
        assert!(choose(&asked(&["none", "kill"]), &[], &|_| None).is_err());
        assert!(
            choose(&asked(&["disk"]), &[], &no_disk).expect_err("it is refused").to_string().contains("why")
        );
    }

    #[test]
    fn a_name_that_is_unknown_or_taken_is_refused() {
        let error = choose(&asked(&["kil"]), &[], &|_| None).expect_err("it is refused");
        assert!(
            error.to_string().contains("'kil'") && error.help().contains("kill"),
            "{error}: {}",
            error.help()
        );
        let hooks = [("kill".to_owned(), "true".to_owned())];
        assert!(choose(&[], &hooks, &|_| None).is_err());
    }
}

//! `[alerts]`.

use std::time::Duration;

use super::tests::{BASE, assert_shown, only_mistake, parse};
use crate::options::AlertLimits;

/// Every key of the section.
pub(super) const ALERTS: &str = "[alerts]\nto = [\"screen\", \"events\"]\ninto = \"orders\"\nevery = \"5s\"\n\
    [alerts.limits]\ndead_letters = 1\nerrors = 2\npending = 3\noldest = \"4s\"\ndispatch = \"5s\"\n\
    processing = \"6s\"\nerror_percent = 7\n";

#[test]
fn d7_alerts_go_to_sinks_and_into_an_outbox() {
    let alerts = parse(&format!("{BASE}{ALERTS}")).expect("it is valid").alerts.expect("it is there");
    assert_eq!(alerts.to, ["screen", "events"]);
    assert_eq!((alerts.into.as_deref(), alerts.every), (Some("orders"), Duration::from_secs(5)));
    assert_eq!((alerts.limits.dead_letters, alerts.limits.error_percent), (1, 7));
    assert_shown(&format!("{BASE}{ALERTS}"));
    let plain = parse(&format!("{BASE}[alerts]\nto = \"screen\"\n")).expect("it is valid").alerts;
    let plain = plain.expect("it is there");
    assert_eq!((plain.limits, plain.every), (AlertLimits::default(), Duration::from_secs(10)));
    assert_eq!(parse(BASE).expect("it is valid").alerts, None);
}

#[test]
fn d7_alerts_that_would_reach_nobody_are_refused() {
    for (text, mistake, help) in [
        ("[alerts]\nevery = \"5s\"\n", "[alerts] has no 'to' or 'into'", "name a sink"),
        (
            "[alerts]\nto = \"scren\"\n",
            "alerts.to = \"scren\": there is no such sink",
            "did you mean 'screen'?",
        ),
        ("[alerts]\nto = []\n", "alerts.to: is an empty list", "name at least one"),
        ("[alerts]\nto = \"errors\"\n", "alerts.to = \"errors\": alerts cannot go there", "without an inbox"),
        ("[alerts]\ninto = \"mails\"\n", "alerts.into = \"mails\": is no log", "layout = \"log\""),
        ("[alerts]\ninto = \"unread\"\n", "alerts.into = \"unread\": no pipe carries", "from = \"unread\""),
        ("[alerts]\nto = \"screen\"\nlimits = { pending = 10000 }\n", "is out of range", "from 0 to 9999"),
    ] {
        let more = "[sinks.errors]\non = \"shop\"\nerror_log = true\n[sources.mails]\non = \"rabbit\"\nqueue = \"q\"\n\
            [connections.other]\nurl = \"sqlite:other.db\"\n[sources.unread]\non = \"other\"\n";
        let found = only_mistake(&format!("{BASE}{more}{text}"));
        assert!(found.contains(mistake) && found.contains(help), "{text}: {found}");
    }
}

//! `[alerts]`: who is told when something is wrong.

use std::time::Duration;

use super::{days, millis, minutes, secs};
use crate::mistake::At;
use crate::options::{ALERTS_EVERY, AlertLimits};
use crate::reader::Section;

/// Who is told, and of what.
#[derive(Debug)]
pub struct AlertsConfig {
    /// The sinks.
    pub to: Vec<At<String>>,
    /// The outbox.
    pub into: Option<At<String>>,
    /// How often one looks.
    pub every: Duration,
    /// What may be.
    pub limits: AlertLimits,
}

pub(super) fn read_alerts(section: Section<'_>) -> AlertsConfig {
    let (to, into) = (section.one_or_more("to"), section.text("into"));
    if !section.is_set("to") && !section.is_set("into") {
        section.note_missing(&["to", "into"], "name a sink, to = \"…\", or an outbox, into = \"…\"");
    }
    let mut every = ALERTS_EVERY;
    section.duration("every", secs(1)..=minutes(10), &mut every);
    let limits = section.section("limits").map(|limits| read_limits(limits)).unwrap_or_default();
    section.finish(&[]);
    AlertsConfig { to, into, every, limits }
}

fn read_limits(section: Section<'_>) -> AlertLimits {
    let mut limits = AlertLimits::default();
    section.count("dead_letters", 0..=1_000_000, &mut limits.dead_letters);
    // Counting stops at a thousand, and for what is pending at ten thousand.
    section.count("errors", 0..=999, &mut limits.errors);
    section.count("pending", 0..=9_999, &mut limits.pending);
    section.duration("oldest", secs(1)..=days(365), &mut limits.oldest);
    // Longer times are not told apart.
    section.duration("dispatch", millis(5)..=secs(59), &mut limits.dispatch);
    section.duration("processing", millis(5)..=secs(59), &mut limits.processing);
    section.count("error_percent", 0..=99, &mut limits.error_percent);
    section.finish(&[]);
    limits
}

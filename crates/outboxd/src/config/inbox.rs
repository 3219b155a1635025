//! The inbox of a sink: `inbox = "connection"`, or a table that somebody else made.

use std::time::Duration;

use super::{days, minutes};
use crate::mistake::{At, Place};
use crate::options::{InboxTableOptions, WINDOW};
use crate::reader::Section;

/// Keys that only a sink with an inbox has.
pub(super) const INBOX_KEYS: [&str; 2] = ["inbox", "inbox_window"];

/// Where the handled ids are kept.
#[derive(Debug)]
pub struct InboxConfig {
    /// In which database.
    pub on: InboxPlace,
    /// In which table, if it is not ours.
    pub table: Option<InboxTableOptions>,
    /// How long an id is remembered; none keeps all.
    pub window: Option<Duration>,
    /// Where the window was written, if it was.
    pub window_place: Option<Place>,
    /// Where the inbox was written.
    pub place: Place,
}

/// In which database an inbox is.
#[derive(Debug)]
pub enum InboxPlace {
    /// In that of this connection.
    On(At<String>),
    /// In that of the sink itself.
    OfSink,
}

/// Whether a sink has a database of its own, in which its inbox must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    Yes,
    No,
}

/// Reads the inbox of a sink; one in the sink's own database is there also if nothing is written.
pub(super) fn read(section: &Section<'_>, own: Own) -> Option<InboxConfig> {
    let place = section.place_of("inbox");
    let mut table = None;
    let on = if section.is_table("inbox") {
        let mapped = section.section("inbox")?;
        let on = mapped.text("on").map(InboxPlace::On);
        if mapped.has("table") {
            table = read_table(&mapped);
        } else if ["id", "at", "consumer", "schema"].into_iter().any(|key| mapped.has(key)) {
            mapped.note_missing(&["table"], "name the table: { table = \"…\", id = \"…\" }");
        }
        if own == Own::No && !mapped.has("on") {
            mapped.note_missing(&["on"], "name the connection to a database: { on = \"…\" }");
        }
        let complete = on.is_some() || own == Own::Yes;
        mapped.finish(&[]);
        if !complete {
            return None;
        }
        on
    } else {
        section.text("inbox").map(InboxPlace::On)
    };
    let has_inbox = section.has("inbox");
    let window_place = section.place_if_set("inbox_window");
    // A table of somebody else's is pruned only if that is asked for.
    let mut window = table.is_none().then_some(WINDOW);
    section.duration_or_never("inbox_window", minutes(1)..=days(3_650), &mut window);
    if own == Own::No && !has_inbox {
        if window_place.is_some() {
            section.note("inbox_window", "there is no 'inbox'", "add inbox = \"connection\", or remove it");
        }
        return None;
    }
    if window.is_some() && table.as_ref().is_some_and(|table| table.at.is_none()) {
        let help = "name the column of the time: at = \"…\", or remove 'inbox_window'";
        section.note("inbox_window", "the table does not say since when an id is in it", help);
    }
    let on = match own {
        Own::Yes => on.unwrap_or(InboxPlace::OfSink),
        Own::No => on?,
    };
    Some(InboxConfig { on, table, window, window_place, place })
}

fn read_table(mapped: &Section<'_>) -> Option<InboxTableOptions> {
    let table = mapped.text("table");
    let id = mapped.required("id", "name the column of the id: id = \"…\"");
    let schema = mapped.text("schema");
    let (at, consumer) = (mapped.text("at"), mapped.text("consumer"));
    Some(InboxTableOptions {
        schema: schema.map(|schema| schema.value),
        table: table?.value,
        id: id?.value,
        at: at.map(|at| at.value),
        consumer: consumer.map(|consumer| consumer.value),
    })
}

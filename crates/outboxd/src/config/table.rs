//! The mapping of a source with `layout = "table"`: what is written, over what its preset says, checked.

use outbox::table::{Done, Draft, Flaw, Mapping, STAMP_TIMEOUT, preset, presets};

use super::source::LayoutConfig;
use super::{days, minutes, secs};
use crate::mistake::did_you_mean;
use crate::options::TableOptions;
use crate::reader::Section;

/// Keys that only a mapped table has.
pub(super) const TABLE_KEYS: [&str; 24] = [
    "preset",
    "schema",
    "table",
    "tables",
    "id",
    "type",
    "key",
    "payload",
    "content_type",
    "headers",
    "header_columns",
    "occurred_at",
    "order_by",
    "pending",
    "done",
    "failed",
    "dead",
    "attempts",
    "error",
    "due",
    "stamp",
    "stamp_timeout",
    "lock",
    "processed",
];

/// Reads and checks a mapping; nothing if it has a mistake.
pub(super) fn read_table(section: &Section<'_>) -> Option<LayoutConfig> {
    let name = section.text("preset").map(|name| name.value);
    let known = name.as_deref().and_then(preset);
    if let Some(name) = &name
        && known.is_none()
    {
        let names = presets().iter().map(|preset| preset.name);
        section.note("preset", "there is no such preset", did_you_mean(name, names));
    }
    // A preset that is not known has whatever is missing.
    let is_whole = known.is_some() || !section.is_set("preset");
    let processed = section.section("processed");
    let draft = read_draft(section, processed.as_ref()).or(known.unwrap_or_default());
    let mut retention = None;
    section.duration_or_never("retention", minutes(1)..=days(36_500), &mut retention);
    let checked = draft.check();
    if let Err(flaws) = &checked {
        for flaw in flaws.iter().filter(|flaw| is_whole || !flaw.is_missing()) {
            tell(flaw, section, processed.as_ref());
        }
    }
    if let Some(processed) = processed {
        processed.finish(&[]);
    }
    let mapping = checked.ok()?;
    if retention.is_some() && mapping.done_at().is_none() {
        let (rule, help) = why_not_retained(&mapping);
        section.note("retention", rule, help);
    }
    if mapping.attempts_limit() == Some(0) {
        section.note("pending", "is never true", "attempts are counted from 0; raise the limit");
    }
    let stamp_timeout_place = section.place_of("stamp_timeout");
    let table_place = section.place_of(if section.is_set("tables") { "tables" } else { "table" });
    let options = Box::new(TableOptions { mapping, retention });
    is_whole.then_some(LayoutConfig::Table { options, table_place, stamp_timeout_place })
}

fn read_draft(section: &Section<'_>, processed: Option<&Section<'_>>) -> Draft {
    let text = |key| section.text(key).map(|text| text.value);
    let member = |key| processed?.text(key).map(|text| text.value);
    let names = |key| section.one_or_more(key).into_iter().map(|name| name.value).collect();
    let header_columns = section.section("header_columns").map(|columns| {
        let columns = columns.named().into_iter().filter_map(|(header, value)| {
            let column = columns.named_text(&header, value)?;
            Some((header.value, column.value))
        });
        columns.collect()
    });
    let mut stamp_timeout = STAMP_TIMEOUT;
    section.duration("stamp_timeout", secs(1)..=days(1), &mut stamp_timeout);
    Draft {
        schema: text("schema"),
        table: text("table"),
        tables: names("tables"),
        id: text("id"),
        kind: text("type"),
        key: text("key"),
        payload: text("payload"),
        content_type: text("content_type"),
        headers: text("headers"),
        header_columns: header_columns.unwrap_or_default(),
        occurred_at: text("occurred_at"),
        order_by: names("order_by"),
        pending: text("pending"),
        done: text("done"),
        failed: text("failed"),
        dead: text("dead"),
        attempts: text("attempts"),
        error: text("error"),
        due: text("due"),
        stamp: text("stamp"),
        stamp_timeout: section.is_set("stamp_timeout").then_some(stamp_timeout),
        lock: section.integer("lock"),
        processed_table: member("table"),
        processed_id: member("id"),
        processed_at: member("at"),
    }
}

/// Notes a flaw at the place of its key.
fn tell(flaw: &Flaw, section: &Section<'_>, processed: Option<&Section<'_>>) {
    let member = match flaw.key {
        "processed_table" => Some("table"),
        "processed_id" => Some("id"),
        "processed_at" => Some("at"),
        _ => None,
    };
    let (section, key) = match (member, processed) {
        (Some(member), Some(processed)) => (processed, member),
        _ => (section, flaw.key),
    };
    if !flaw.is_missing() {
        section.note(key, &flaw.what, &flaw.help);
    } else if key == "table" && member.is_none() {
        if !section.is_set("table") && !section.is_set("tables") {
            section.note_missing(&["table", "tables"], &flaw.help);
        }
    } else if !section.is_set(key) {
        // What is set and missing all the same was no text, which is told already.
        section.note_missing(&[key], &flaw.help);
    }
}

fn why_not_retained(mapping: &Mapping) -> (&'static str, &'static str) {
    match mapping.done {
        Done::Delete => ("a row is removed as soon as it is done", "remove 'retention'"),
        Done::Set(_) => (
            "the table does not say since when a row is done",
            "set a time in 'done', such as SentAt = now, or remove 'retention'",
        ),
    }
}

//! The error tables of a configuration, and what is chosen in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use outbox::errors::{ErrorFilter, ErrorLog, ErrorRecord};
use serde_json::{Value, json};

use super::args::Chosen;
use crate::backends::Databases;
use crate::cli::list::without_nulls;
use crate::cli::output::{Output, printable};
use crate::connection::Connection;
use crate::mistake::did_you_mean;
use crate::plan::{Plan, Target};
use crate::trouble::{Exit, Trouble};

/// Asked for so many at a time.
const PAGE: u32 = 500;

/// So many are named before somebody says yes.
const SAMPLE: usize = 5;

/// An error table.
pub struct Desk<'p> {
    /// The name of its sink.
    pub sink: &'p str,
    /// The table.
    pub log: Arc<dyn ErrorLog>,
    connection: &'p Connection,
}

/// The error tables that are meant: that of the named sink, or all.
pub async fn desks<'p>(plan: &'p Plan, name: Option<&str>) -> Result<Vec<Desk<'p>>, Trouble> {
    let tables = || {
        plan.sinks.values().filter_map(|sink| match &sink.target {
            Target::ErrorLog(connection, options) => Some((sink.name.as_str(), connection, options)),
            _ => None,
        })
    };
    if tables().next().is_none() {
        let help = "add one: [sinks.errors] with on = \"connection\" and error_log = true, fed from the dead letters";
        return Err(Trouble::new(Exit::Config, "there is no error table in the configuration", help));
    }
    if let Some(name) = name.filter(|name| tables().all(|(sink, ..)| sink != *name)) {
        let help = did_you_mean(name, tables().map(|(sink, ..)| sink));
        return Err(Trouble::usage(format!("there is no error table '{name}' in the configuration"), help));
    }
    let databases = Databases::default();
    let mut desks = Vec::new();
    for (sink, connection, options) in tables().filter(|(sink, ..)| name.is_none_or(|name| name == *sink)) {
        let log = databases.error_log(connection, options).await;
        let log =
            log.map_err(|error| Trouble::at_database("cannot open the error table", connection, &error))?;
        desks.push(Desk { sink, log, connection });
    }
    Ok(desks)
}

/// What is chosen, table by table.
pub struct Found<'p> {
    /// Every table that was looked at, with what is meant of it.
    pub tables: Vec<(Desk<'p>, Vec<ErrorRecord>)>,
    /// How many there are in all.
    pub matched: u64,
    missing: Vec<String>,
}

impl<'p> Found<'p> {
    /// Looks for what is chosen, and shows what is meant.
    pub async fn look(plan: &'p Plan, chosen: &Chosen, output: &Output) -> Result<Self, Trouble> {
        let mut tables = Vec::new();
        for desk in desks(plan, chosen.sink.as_deref()).await? {
            let records = desk.choose(chosen).await?;
            tables.push((desk, records));
        }
        let all = || tables.iter().flat_map(|(_, records)| records);
        let (matched, missing) = (all().count() as u64, chosen.missing(all()));
        preview(all(), output);
        Ok(Self { tables, matched, missing })
    }

    /// Says what was done, and what was asked for by name and is not there. `done` is how many, if anybody said yes.
    pub fn report(
        self,
        verb: &str,
        participle: &str,
        done: Option<u64>,
        output: &mut Output,
    ) -> anyhow::Result<Exit> {
        let Self { matched, missing, .. } = self;
        if output.is_json() {
            let changed = done.unwrap_or_default();
            output
                .json(&json!({ "verb": verb, "matched": matched, "changed": changed, "missing": missing }))?;
        } else {
            let (count, what) = done.map_or((matched, "matched"), |done| (done, participle));
            output.line(format_args!("{} {what}", errors(count)))?;
        }
        told_missing(&missing)
    }
}

/// A number of errors, in words.
pub fn errors(count: u64) -> String {
    format!("{count} error{}", if count == 1 { "" } else { "s" })
}

impl<'p> Desk<'p> {
    /// Something failed at the table.
    pub fn trouble(&self, doing: &str, error: &outbox::Error) -> Trouble {
        Trouble::at_database(doing, self.connection, error)
    }

    /// The table, for people.
    pub fn name(&self) -> String {
        format!("error table of sink '{}'", self.sink)
    }

    /// What is meant by one id: the error of that id, or all of that message.
    pub async fn find(&self, id: &str) -> outbox::Result<Vec<ErrorRecord>> {
        if let Some(record) = self.log.show(id).await? {
            return Ok(vec![record]);
        }
        let filter =
            ErrorFilter { message_id: Some(id.into()), with_payload: true, ..ErrorFilter::default() };
        self.log.list(&filter).await
    }

    /// What is chosen here, without payloads, in the order in which it was written.
    pub async fn choose(&self, chosen: &Chosen) -> Result<Vec<ErrorRecord>, Trouble> {
        let records = self.records(chosen).await;
        records.map(in_order).map_err(|error| self.trouble("cannot read the error table", &error))
    }

    async fn records(&self, chosen: &Chosen) -> outbox::Result<Vec<ErrorRecord>> {
        let mut filter = filter(chosen, Timestamp::now());
        let most = usize::try_from(chosen.most).unwrap_or(usize::MAX);
        let mut records = Vec::new();
        if !chosen.ids.is_empty() {
            for id in &chosen.ids {
                records.extend(self.find(id).await?.into_iter().filter(|record| fits(record, &filter)));
            }
            return Ok(records);
        }
        loop {
            let page = self.log.list(&filter).await?;
            let Some(last) = page.last().map(|record| record.id.clone()) else { return Ok(records) };
            records.extend(page);
            if records.len() >= most {
                records.truncate(most);
                return Ok(records);
            }
            filter.after = Some(last);
        }
    }
}

/// Each once, by when it first failed: what is sent back in bulk keeps the order of its key, whatever the ids of a mapped
/// table are, and in whichever order somebody typed them.
fn in_order(mut records: Vec<ErrorRecord>) -> Vec<ErrorRecord> {
    records.sort_by(|one, other| (one.first_seen, &one.id).cmp(&(other.first_seen, &other.id)));
    records.dedup_by(|one, other| one.id == other.id);
    records
}

fn filter(chosen: &Chosen, now: Timestamp) -> ErrorFilter {
    let ago =
        |time: std::time::Duration| now - SignedDuration::try_from(time).unwrap_or(SignedDuration::ZERO);
    ErrorFilter {
        kind: chosen.kind.clone(),
        code: chosen.code.clone(),
        key: chosen.key.clone(),
        origin: chosen.origin.clone(),
        older_than: chosen.older_than.map(ago),
        newer_than: chosen.newer_than.map(ago),
        resolution: chosen.state.resolution(),
        limit: PAGE,
        ..ErrorFilter::default()
    }
}

/// The filter once more, for what was found by its id.
fn fits(record: &ErrorRecord, filter: &ErrorFilter) -> bool {
    let of_kind = |kind: &String| {
        kind.strip_suffix('*').map_or(record.kind == *kind, |start| record.kind.starts_with(start))
    };
    filter.kind.as_ref().is_none_or(of_kind)
        && filter.code.as_ref().is_none_or(|code| record.cause.code == code.as_str())
        && filter.key.as_ref().is_none_or(|key| record.key.as_ref() == Some(key))
        && filter.origin.as_ref().is_none_or(|origin| record.origin == *origin)
        && filter.older_than.is_none_or(|time| record.last_seen < time)
        && filter.newer_than.is_none_or(|time| record.last_seen >= time)
        && filter.resolution.is_none_or(|resolution| record.resolution == resolution)
}

impl Chosen {
    /// The flags that were set, for the record.
    pub fn to_json(&self) -> Value {
        let seconds = |time: Option<std::time::Duration>| time.map(|time| time.as_secs_f64());
        without_nulls(json!({
            "ids": if self.ids.is_empty() { None } else { Some(&self.ids) },
            "state": self.state.resolution(),
            "type": self.kind,
            "key": self.key,
            "code": self.code,
            "origin": self.origin,
            "older_than_seconds": seconds(self.older_than),
            "newer_than_seconds": seconds(self.newer_than),
        }))
    }

    /// The ids that were asked for by name and are not among these.
    pub fn missing<'r>(&self, found: impl Iterator<Item = &'r ErrorRecord> + Clone) -> Vec<String> {
        let is_there =
            |id: &str| found.clone().any(|record| record.id == id || record.message_id.as_str() == id);
        self.ids.iter().filter(|id| !is_there(id)).cloned().collect()
    }
}

/// What is meant, by origin, type and cause, and the first of them.
pub fn preview<'r>(found: impl Iterator<Item = &'r ErrorRecord> + Clone, output: &Output) {
    let mut groups: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for record in found.clone() {
        *groups.entry((&record.origin, &record.kind, record.cause.code.as_ref())).or_default() += 1;
    }
    for ((origin, kind, code), count) in groups {
        output.note(printable(&format!("{count} of type {kind} with {code}, from {origin}")));
    }
    let count = found.clone().count();
    for record in found.take(SAMPLE) {
        output.note(printable(&format!("  {} (message {})", record.id, record.message_id)));
    }
    if count > SAMPLE {
        output.note(format_args!("  and {} more", count - SAMPLE));
    }
}

/// What was asked for by name and is not there, as the end of a verb.
pub fn told_missing(missing: &[String]) -> anyhow::Result<Exit> {
    match missing.first() {
        None => Ok(Exit::Ok),
        Some(first) => {
            let what = format!("there is no such error '{first}'");
            let help = "check the id; --state any also finds what was returned or resolved";
            Err(Trouble::new(Exit::Failed, what, help).into())
        }
    }
}

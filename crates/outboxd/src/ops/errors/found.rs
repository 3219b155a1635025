//! What was found in the error tables that are meant, and what is done about it. Who says yes in between does so to just
//! these errors.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use outbox::errors::ErrorRecord;
use outbox::letters::Pace;
use outbox::{MessageId, Outcome, Sink};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use utoipa::ToSchema;

use super::desk::{Desk, desks};
use super::ways::Ways;
use super::{Chosen, ErrorEntry, no_such};
use crate::ops::told::{Preview, previews};
use crate::ops::{Office, Tally, Tell, written_down};
use crate::trouble::{Exit, Trouble};

/// What is chosen, table by table.
pub struct Found<'o> {
    office: &'o Office,
    tables: Vec<(Desk<'o>, Vec<ErrorRecord>)>,
    ids: Vec<String>,
    chosen: Chosen,
    /// The sinks whose tables have more that matches.
    pub more: Vec<String>,
}

/// What became of a deed.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ErrorsSettled)]
pub struct Settled {
    /// What was to be done.
    pub verb: &'static str,
    /// How many were meant.
    pub matched: u64,
    /// How many were dealt with; none if it was only looked.
    pub changed: u64,
    /// The ids that were asked for and are not there.
    pub missing: Vec<String>,
    /// Of which causes they are.
    pub causes: Vec<Preview>,
    /// The sinks whose tables have more that matches.
    pub more: Vec<String>,
}

impl<'o> Found<'o> {
    /// Looks for what is chosen.
    pub async fn look(office: &'o Office, ids: Vec<String>, chosen: Chosen) -> Result<Self, Trouble> {
        chosen.check(&ids)?;
        let look = async {
            let (mut tables, mut more) = (Vec::new(), Vec::new());
            for desk in desks(office, chosen.sink.as_deref()).await? {
                let (records, cut) = desk.choose(&ids, &chosen).await?;
                if cut {
                    more.push(desk.sink.to_owned());
                }
                tables.push((desk, records));
            }
            Ok((tables, more))
        };
        let (tables, more) = office.look("cannot look at the error tables", look).await?;
        Ok(Self { office, tables, ids, chosen, more })
    }

    /// The errors, in the order of their first failure within a table.
    pub fn records(&self) -> impl Iterator<Item = &ErrorRecord> + Clone {
        self.tables.iter().flat_map(|(_, records)| records)
    }

    /// How many errors.
    pub fn matched(&self) -> u64 {
        self.records().count() as u64
    }

    /// As they are told.
    pub fn entries(&self) -> Vec<ErrorEntry> {
        let of = |(desk, records): &(Desk<'_>, Vec<ErrorRecord>)| {
            records.iter().map(|record| ErrorEntry::of(desk.sink, record)).collect::<Vec<_>>()
        };
        self.tables.iter().flat_map(of).collect()
    }

    /// What is meant, by type and cause.
    pub fn causes(&self) -> Vec<Preview> {
        let of =
            |record: &'_ ErrorRecord| (record.origin.clone(), record.kind.clone(), record.cause.code.clone());
        let all: Vec<_> = self.records().map(of).collect();
        previews(all.iter().map(|(origin, kind, code)| (origin.as_str(), kind.as_str(), code.as_ref())))
    }

    /// What is told of a deed that was not done.
    pub fn only_looked(&self, verb: &'static str) -> Settled {
        let is_there =
            |id: &str| self.records().any(|record| record.id == id || record.message_id.as_str() == id);
        Settled {
            verb,
            matched: self.matched(),
            changed: 0,
            missing: self.ids.iter().filter(|id| !is_there(id)).cloned().collect(),
            causes: self.causes(),
            more: self.more.clone(),
        }
    }

    /// The ways back of all of them, or why one has none: known before the first message goes.
    pub fn ways(&self) -> Result<Ways, Trouble> {
        let mut ways = Ways::default();
        for (desk, records) in &self.tables {
            for record in records {
                ways.find(&self.office.plan, desk.sink, &record.origin)?;
            }
        }
        Ok(ways)
    }

    /// Sends them back to where they failed.
    pub async fn send_back(&self, by: &str, pace: Option<Pace>, tell: Tell<'_>) -> Result<Settled, Trouble> {
        self.go_through(Deed::SendBack(self.ways()?, pace), by, tell).await
    }

    /// Closes them: nothing is left to do.
    pub async fn resolve(&self, by: &str, note: Option<&str>, tell: Tell<'_>) -> Result<Settled, Trouble> {
        self.go_through(Deed::Resolve(note), by, tell).await
    }

    /// One after the other, table by table, written down before and after.
    async fn go_through(&self, mut deed: Deed<'_>, by: &str, tell: Tell<'_>) -> Result<Settled, Trouble> {
        let (verb, action) = deed.names();
        let mut settled = self.only_looked(verb);
        if settled.matched == 0 {
            return Ok(settled);
        }
        let book = self.office.book(by).await?;
        let mut next = Instant::now();
        for (desk, records) in self.tables.iter().filter(|(_, records)| !records.is_empty()) {
            let ids: Vec<MessageId> = records.iter().map(|record| record.message_id.clone()).collect();
            let detail = deed.detail(self.chosen.to_json(&self.ids));
            let (tally, before) = (Tally::default(), settled.changed);
            let each = async {
                for record in records {
                    sleep_until(next).await;
                    next += deed.each();
                    tally.add(self.settle(&mut deed, desk, record, by).await?.into());
                    tell(before + tally.count());
                }
                Ok(())
            };
            let name = desk.name();
            let done = written_down(Some(&book), (action, &name, &ids, detail), &tally, each).await;
            settled.changed +=
                done.map_err(|trouble| trouble.after(before + tally.count(), settled.matched))?;
        }
        Ok(settled)
    }

    /// Whether it was done: not where somebody else has done something about it meanwhile.
    async fn settle(
        &self,
        deed: &mut Deed<'_>,
        desk: &Desk<'_>,
        record: &ErrorRecord,
        by: &str,
    ) -> Result<bool, Trouble> {
        match deed {
            Deed::SendBack(ways, _) => {
                let sink = ways.find(&self.office.plan, desk.sink, &record.origin)?;
                send_back(desk, record, &sink, by).await
            }
            Deed::Resolve(note) => {
                let closed = desk.log.resolve(&record.id, by, *note).await;
                closed.map_err(|error| desk.trouble("cannot resolve the error", &error))?;
                Ok(true)
            }
        }
    }
}

/// What is done to errors.
enum Deed<'d> {
    /// Sent back by these ways, not faster than that.
    SendBack(Ways, Option<Pace>),
    /// Closed, with this note.
    Resolve(Option<&'d str>),
}

impl Deed<'_> {
    /// The verb, and what the book calls it.
    fn names(&self) -> (&'static str, &'static str) {
        match self {
            Self::SendBack(..) => ("errors retry", "errors.retry"),
            Self::Resolve(_) => ("errors resolve", "errors.resolve"),
        }
    }

    /// What the book says of it.
    fn detail(&self, selection: Value) -> Value {
        match self {
            Self::SendBack(..) => selection,
            Self::Resolve(note) => json!({ "selection": selection, "note": note }),
        }
    }

    /// The time that each has.
    fn each(&self) -> Duration {
        match self {
            Self::SendBack(_, Some(pace)) => pace.each(),
            _ => Duration::ZERO,
        }
    }
}

/// Sends one back, and notes it once it has arrived. Whoever is cut off in between sends it twice. What no longer stands
/// as it was chosen, because somebody else has sent it back or closed it, is left alone.
async fn send_back(
    desk: &Desk<'_>,
    record: &ErrorRecord,
    sink: &Arc<dyn Sink>,
    by: &str,
) -> Result<bool, Trouble> {
    // As it is now: somebody may have edited it since it was listed.
    let whole = desk.log.show(&record.id).await;
    let whole = whole.map_err(|error| desk.trouble("cannot read the error table", &error))?;
    let Some(whole) = whole else { return Err(no_such(&record.id)) };
    if whole.resolution != record.resolution {
        return Ok(false);
    }
    let message = whole.returned(by, Timestamp::now());
    let outcome = sink.deliver(std::slice::from_ref(&message)).await.pop();
    let why = match outcome {
        Some(Outcome::Delivered) => None,
        Some(Outcome::Rejected(rejection)) => Some(rejection.cause.to_string()),
        Some(Outcome::Unavailable(cause)) => Some(cause.to_string()),
        None => Some("no answer".to_owned()),
    };
    if let Some(why) = why {
        let what = format!("cannot send message {} back to '{}': {why}", record.message_id, record.origin);
        return Err(Trouble::new(
            Exit::Sink,
            what,
            "check that the broker runs and that the queue or topic is there",
        ));
    }
    let noted = desk.log.returned(&record.id, by).await;
    noted.map_err(|error| desk.trouble("sent back, but cannot note it", &error))?;
    Ok(true)
}

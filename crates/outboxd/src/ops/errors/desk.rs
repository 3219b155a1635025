//! The error tables of a configuration, and what is chosen in them.

use std::sync::Arc;

use futures_util::future::try_join_all;
use jiff::Timestamp;
use outbox::errors::{ErrorFilter, ErrorLog, ErrorRecord};

use super::chosen::{Chosen, fits};
use crate::connection::Connection;
use crate::mistake::did_you_mean;
use crate::ops::Office;
use crate::options::ErrorLogOptions;
use crate::plan::{Plan, Target};
use crate::trouble::{Exit, Trouble};

/// An error table.
#[derive(Clone)]
pub struct Desk<'p> {
    /// The name of its sink.
    pub sink: &'p str,
    /// The table.
    pub log: Arc<dyn ErrorLog>,
    connection: &'p Connection,
}

/// Where an error table is.
type Table<'p> = (&'p str, &'p Connection, &'p ErrorLogOptions);

/// The error tables of a plan.
pub fn tables(plan: &Plan) -> impl Iterator<Item = Table<'_>> {
    plan.sinks.values().filter_map(|sink| match &sink.target {
        Target::ErrorLog(connection, options) => Some((sink.name.as_str(), connection, options)),
        _ => None,
    })
}

/// The error tables that are meant: that of the named sink, or all.
pub fn choose<'p>(plan: &'p Plan, name: Option<&str>) -> Result<Vec<Table<'p>>, Trouble> {
    if tables(plan).next().is_none() {
        let help = "add one: [sinks.errors] with on = \"connection\" and error_log = true, fed from the dead letters";
        return Err(Trouble::new(Exit::Config, "there is no error table in the configuration", help));
    }
    if let Some(name) = name.filter(|name| tables(plan).all(|(sink, ..)| sink != *name)) {
        let help = did_you_mean(name, tables(plan).map(|(sink, ..)| sink));
        let what = format!("there is no error table '{name}' in the configuration");
        return Err(Trouble::usage(what, help).unknown());
    }
    Ok(tables(plan).filter(|(sink, ..)| name.is_none_or(|name| name == *sink)).collect())
}

/// Opens the error tables that are meant.
pub async fn desks<'o>(office: &'o Office, name: Option<&str>) -> Result<Vec<Desk<'o>>, Trouble> {
    try_join_all(choose(&office.plan, name)?.into_iter().map(|table| Desk::open(office, table))).await
}

impl<'p> Desk<'p> {
    /// Opens a table.
    pub async fn open(office: &Office, (sink, connection, options): Table<'p>) -> Result<Self, Trouble> {
        let log = office.databases.error_log(connection, options).await;
        let log =
            log.map_err(|error| Trouble::at_database("cannot open the error table", connection, &error))?;
        Ok(Self { sink, log, connection })
    }

    /// Something failed at the table.
    pub fn trouble(&self, doing: &str, error: &outbox::Error) -> Trouble {
        Trouble::at_database(doing, self.connection, error)
    }

    /// The table, for people.
    pub fn name(&self) -> String {
        format!("error table of sink '{}'", self.sink)
    }

    /// What is meant by one id: the error of that id, or all of that message.
    pub async fn find(&self, id: &str) -> Result<Vec<ErrorRecord>, Trouble> {
        self.by_id(id).await.map_err(|error| self.unreadable(&error))
    }

    async fn by_id(&self, id: &str) -> outbox::Result<Vec<ErrorRecord>> {
        if let Some(record) = self.log.show(id).await? {
            return Ok(vec![record]);
        }
        let filter =
            ErrorFilter { message_id: Some(id.into()), with_payload: true, ..ErrorFilter::default() };
        self.log.list(&filter).await
    }

    /// What is chosen here, without payloads, in the order in which it was written; and whether there is more.
    pub async fn choose(&self, ids: &[String], chosen: &Chosen) -> Result<(Vec<ErrorRecord>, bool), Trouble> {
        let records = self.records(ids, chosen).await;
        let (records, more) = records.map_err(|error| self.unreadable(&error))?;
        Ok((in_order(records), more))
    }

    fn unreadable(&self, error: &outbox::Error) -> Trouble {
        self.trouble("cannot read the error table", error)
    }

    async fn records(&self, ids: &[String], chosen: &Chosen) -> outbox::Result<(Vec<ErrorRecord>, bool)> {
        let mut filter = chosen.filter(Timestamp::now());
        let mut records = Vec::new();
        if !ids.is_empty() {
            for id in ids {
                records.extend(self.by_id(id).await?.into_iter().filter(|record| fits(record, &filter)));
            }
            return Ok((records, false));
        }
        loop {
            let page = self.log.list(&filter).await?;
            let Some(last) = page.last().map(|record| record.id.clone()) else { return Ok((records, false)) };
            records.extend(page);
            if records.len() > chosen.most() {
                records.truncate(chosen.most());
                return Ok((records, true));
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

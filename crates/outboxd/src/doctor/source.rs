//! A look at a source: which look, by the kind of its connection and its layout.

use std::collections::BTreeSet;

use outbox::admin::{Filter, Stand};
use outbox::table::Reading;
use outbox::{Finding, Level, Result, mysql, postgres};

use super::{broker, sqlite, window};
use crate::backends::{self, Log};
use crate::connection::Kind;
use crate::plan::{Layout, Plan, SourcePlan};

/// So many messages are looked at for their types.
const SAMPLE: u32 = 1_000;

/// Looks at a source.
pub async fn examine(plan: &Plan, source: &SourcePlan) -> Vec<Finding> {
    let url = source.connection.url.reveal();
    match (source.connection.kind, &source.layout) {
        (Kind::Postgres, Layout::Log(options)) => {
            let mut findings = postgres::Outbox::examine(url).await;
            let is_reached =
                findings.iter().all(|finding| finding.what != "connection" || finding.level == Level::Ok);
            if options.notify && is_reached {
                findings.push(postgres::Outbox::examine_notify(url).await);
            }
            findings
        }
        (Kind::Postgres, Layout::Table(options)) => {
            postgres::Table::examine(url, &options.mapping, &reading(plan, source)).await
        }
        (_, Layout::Queue(_) | Layout::Topic(_)) => {
            let mut findings = broker::examine(source).await;
            // Who does not let us in, or has no such topic, tells nothing of it either.
            if findings.iter().all(|finding| finding.level != Level::Failure) {
                findings.extend(window::examine(plan, source).await);
            }
            findings
        }
        (Kind::Sqlite, _) => sqlite::examine(source).await,
        (_, Layout::Table(options)) => mysql::Table::examine(url, &options.mapping).await,
        (kind, _) => vec![Finding::failure("connection", format!("{} cannot be a source", kind.as_str()))],
    }
}

/// As its pipe reads it; a table has one.
fn reading(plan: &Plan, source: &SourcePlan) -> Reading {
    let pipe = plan.pipes_from(&source.name).next();
    pipe.map_or_else(Reading::default, |pipe| backends::reading(&pipe.options, "outboxd doctor"))
}

/// What waits for a person.
pub(super) fn dead(count: u64) -> Finding {
    if count == 0 {
        return Finding::ok("dead", "none");
    }
    Finding::warning("dead", format!("{count} wait for a person")).fix("outboxd list --state dead")
}

/// Types of messages that wait in a source, or else of any in it.
pub async fn types(source: &SourcePlan) -> Result<BTreeSet<String>> {
    if source.is_on_broker() {
        return Ok(BTreeSet::new());
    }
    let log = Log::open(source).await?;
    let pending = Filter { stand: Some(Stand::Pending), limit: SAMPLE, ..Filter::default() };
    let mut entries = log.admin().list(&pending).await?;
    if entries.is_empty() {
        entries = log.admin().list(&Filter { limit: SAMPLE, ..Filter::default() }).await?;
    }
    Ok(entries.into_iter().map(|entry| entry.kind).collect())
}

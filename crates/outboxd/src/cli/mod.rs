//! The verbs, one file each or a few that belong together.

pub mod args;
pub mod output;

mod activity;
pub mod audit;
mod consent;
pub mod dlq;
pub mod errors;
mod init;
mod init_from;
mod instances;
mod list;
mod migrate;
mod person;
mod progress;
mod purge;
mod repair;
mod replay;
mod send;
mod show;
mod show_config;
mod status;
mod validate;

#[cfg(test)]
mod reference;

pub use audit::list as audit_list;
pub use dlq::dlq;
pub use errors::errors;
pub use init::init;
pub use list::list;
pub use migrate::migrate;
pub use purge::purge;
pub use repair::repair;
pub use replay::replay;
pub use send::send;
pub use show::show;
pub use show_config::show_config;
pub use status::{status, told};
pub use validate::validate;

use std::path::Path;

use crate::backends::Log;
use crate::mistake::did_you_mean;
use crate::options::SourceOptions;
use crate::plan::{Checked, Layout, Plan, SourcePlan};
use crate::trouble::{Exit, Trouble};

/// Reads and checks the configuration.
pub fn load(file: &Path) -> anyhow::Result<Plan> {
    Ok(check(file)?.plan)
}

/// The same, with what should be looked at.
pub fn check(file: &Path) -> anyhow::Result<Checked> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        let help = "write one with `outboxd init`, or name it with --config PATH";
        Trouble::new(
            Exit::Config,
            format!("cannot read the configuration ({}): {error}", file.display()),
            help,
        )
    })?;
    Ok(Plan::parse(file, &text, &|name| std::env::var(name).ok())?)
}

/// An open outbox with its plan.
pub struct Opened<'p> {
    /// What the plan says about it.
    pub source: &'p SourcePlan,
    /// The outbox.
    pub log: Log,
}

impl Opened<'_> {
    /// Words for an error of this outbox.
    pub fn trouble(&self, doing: &str, error: &outbox::Error) -> Trouble {
        Trouble::at_source(doing, self.source, error)
    }
}

/// What a verb over outboxes says of a source that is none.
fn not_an_outbox(source: &SourcePlan) -> Trouble {
    let what = format!("source '{}' is on a broker, and this is about outboxes in databases", source.name);
    Trouble::usage(what, "the broker's own tools tell what is in it; choose another with --source")
}

/// The sources that are meant: the named one, or all.
pub fn choose<'p>(plan: &'p Plan, name: Option<&str>) -> Result<Vec<&'p SourcePlan>, Trouble> {
    if plan.sources.is_empty() {
        let help = "add one: [sources.NAME] with on = \"connection\"";
        return Err(Trouble::new(Exit::Config, "there is no source in the configuration", help));
    }
    let Some(name) = name else { return Ok(plan.sources.values().collect()) };
    match plan.sources.get(name) {
        Some(source) => Ok(vec![source]),
        None => {
            let help = did_you_mean(name, plan.sources.keys().map(String::as_str));
            Err(Trouble::usage(format!("there is no source '{name}' in the configuration"), help))
        }
    }
}

/// The outboxes that are meant: the named one, or all. What is on a broker is none.
pub fn choose_outboxes<'p>(plan: &'p Plan, name: Option<&str>) -> Result<Vec<&'p SourcePlan>, Trouble> {
    let (on_brokers, outboxes): (Vec<_>, Vec<_>) =
        choose(plan, name)?.into_iter().partition(|source| source.is_on_broker());
    match on_brokers.first() {
        Some(source) if outboxes.is_empty() => Err(not_an_outbox(source)),
        _ => Ok(outboxes),
    }
}

/// The one outbox that is meant.
pub fn choose_one<'p>(plan: &'p Plan, name: Option<&str>) -> Result<&'p SourcePlan, Trouble> {
    match choose_outboxes(plan, name)?[..] {
        [source] => Ok(source),
        ref several => {
            let names = several.iter().map(|source| source.name.as_str()).collect::<Vec<_>>().join(", ");
            Err(Trouble::usage("there are several sources", format!("choose one with --source: {names}")))
        }
    }
}

/// The options of a log; `why` says what a mapped table lacks for the verb.
pub fn log_options<'p>(source: &'p SourcePlan, why: &str, help: &str) -> Result<&'p SourceOptions, Trouble> {
    match &source.layout {
        Layout::Log(options) => Ok(options),
        Layout::Table(_) => {
            let what = format!("source '{}' is a mapped table: {why}", source.name);
            Err(Trouble::usage(what, help))
        }
        Layout::Queue(_) | Layout::Topic(_) => Err(not_an_outbox(source)),
    }
}

/// Opens an outbox that must be there.
pub async fn open(source: &SourcePlan) -> Result<Opened<'_>, Trouble> {
    match Log::open(source).await {
        Ok(log) => Ok(Opened { source, log }),
        Err(error) => Err(Trouble::at_source("cannot open the source", source, &error)),
    }
}

/// Opens the sources that are meant.
pub async fn open_all<'p>(plan: &'p Plan, name: Option<&str>) -> Result<Vec<Opened<'p>>, Trouble> {
    let mut opened = Vec::new();
    for source in choose_outboxes(plan, name)? {
        opened.push(open(source).await?);
    }
    Ok(opened)
}

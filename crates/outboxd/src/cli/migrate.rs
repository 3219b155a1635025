//! `migrate`: makes or updates the tables, or prints what it would run.

use std::collections::BTreeSet;
use std::path::Path;

use clap::ValueEnum as _;
use serde_json::json;

use super::args::{Database, MigrateArgs};
use super::load;
use super::output::Output;
use crate::backends::{self, Log};
use crate::connection::Connection;
use crate::ops::choose;
use crate::plan::{Layout, Plan, SourcePlan};
use crate::trouble::{Exit, Trouble};

/// Applies or prints the migrations.
pub async fn migrate(args: &MigrateArgs, file: &Path, output: &mut Output) -> anyhow::Result<Exit> {
    if let Some(Some(database)) = args.print {
        return print(database, output);
    }
    let plan = load(file)?;
    let sources = choose(&plan, args.source.as_deref())?;
    for source in &sources {
        match source.layout {
            Layout::Log(_) => {}
            Layout::Table(_) => {
                output.note(format_args!("{}: a mapped table, nothing to migrate", source.name))
            }
            Layout::Queue(_) | Layout::Topic(_) => {
                output.note(format_args!("{}: on a broker, nothing to migrate", source.name));
            }
        }
    }
    let logs: Vec<_> = sources.into_iter().filter(|source| matches!(source.layout, Layout::Log(_))).collect();
    let others = others(&plan, args, &logs);
    if args.print.is_some() {
        let connections = logs.iter().map(|source| &source.connection).chain(others.iter().copied());
        let kinds: BTreeSet<&str> = connections.map(|connection| connection.kind.as_str()).collect();
        for kind in kinds.into_iter().filter_map(|kind| Database::from_str(kind, true).ok()) {
            print(kind, output)?;
        }
        return Ok(Exit::Ok);
    }
    let (mut migrated, mut prepared) = (Vec::new(), Vec::new());
    for source in logs {
        let trouble = |error| Trouble::at_source("cannot migrate", source, &error);
        let log = Log::connect(source).await.map_err(trouble)?;
        let applied = log.migrate().await.map_err(trouble)?;
        tell(&source.name, &applied, output)?;
        migrated.push(json!({ "source": source.name, "applied": applied }));
    }
    for connection in others {
        let trouble = |error| Trouble::at_database("cannot migrate", connection, &error);
        let database = backends::Database::connect(connection).await.map_err(trouble)?;
        let applied = database.migrate().await.map_err(trouble)?;
        tell(&connection.name, &applied, output)?;
        prepared.push(json!({ "connection": connection.name, "applied": applied }));
    }
    if output.is_json() {
        output.json(&json!({ "sources": migrated, "connections": prepared }))?;
    }
    Ok(Exit::Ok)
}

/// Databases that have tables of ours and no log: of inboxes, errors, the audit. Who names a source does not mean them.
fn others<'p>(plan: &'p Plan, args: &MigrateArgs, logs: &[&SourcePlan]) -> Vec<&'p Connection> {
    if args.source.is_some() {
        return Vec::new();
    }
    let has_log = |connection: &&Connection| logs.iter().any(|log| log.connection.name == connection.name);
    plan.tables_of_ours().into_iter().filter(|connection| !has_log(connection)).collect()
}

fn tell(name: &str, applied: &[String], output: &mut Output) -> std::io::Result<()> {
    if output.is_json() {
        return Ok(());
    }
    for step in applied {
        output.line(format_args!("{name}: applied {step}"))?;
    }
    if applied.is_empty() {
        output.line(format_args!("{name}: up to date"))?;
    }
    Ok(())
}

fn print(database: Database, output: &mut Output) -> anyhow::Result<Exit> {
    if output.is_json() {
        let steps = backends::migrations(database).iter();
        let steps = steps.map(|step| json!({ "version": step.version, "name": step.name, "sql": step.sql }));
        output.json(&json!({ "migrations": steps.collect::<Vec<_>>() }))?;
    } else {
        output.line(backends::script(database).trim_end())?;
    }
    Ok(Exit::Ok)
}

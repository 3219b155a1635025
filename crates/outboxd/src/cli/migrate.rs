//! `migrate`: makes or updates the tables, or prints what it would run.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use super::args::{Database, MigrateArgs};
use super::output::Output;
use super::{choose, load};
use crate::backends::{self, Log};
use crate::connection::Kind;
use crate::plan::Layout;
use crate::trouble::{Exit, Trouble};

/// Applies or prints the migrations.
pub async fn migrate(args: &MigrateArgs, file: &Path, output: &mut Output) -> anyhow::Result<Exit> {
    if let Some(Some(database)) = args.print {
        return print(database, output);
    }
    let plan = load(file)?;
    let (logs, tables): (Vec<_>, Vec<_>) = choose(&plan, args.source.as_deref())?
        .into_iter()
        .partition(|source| matches!(source.layout, Layout::Log(_)));
    for table in tables {
        output.note(format_args!("{}: a mapped table, nothing to migrate", table.name));
    }
    if args.print.is_some() {
        let kinds: BTreeSet<&str> = logs.iter().map(|source| source.connection.kind.as_str()).collect();
        for kind in kinds {
            print(if kind == Kind::Sqlite.as_str() { Database::Sqlite } else { Database::Postgres }, output)?;
        }
        return Ok(Exit::Ok);
    }
    let mut migrated = Vec::new();
    for source in logs {
        let trouble = |error| Trouble::at_source("cannot migrate", source, &error);
        let log = Log::connect(source).await.map_err(trouble)?;
        let applied = log.migrate().await.map_err(trouble)?;
        if !output.is_json() {
            for step in &applied {
                output.line(format_args!("{}: applied {step}", source.name))?;
            }
            if applied.is_empty() {
                output.line(format_args!("{}: up to date", source.name))?;
            }
        }
        migrated.push(json!({ "source": source.name, "applied": applied }));
    }
    if output.is_json() {
        output.json(&json!({ "sources": migrated }))?;
    }
    Ok(Exit::Ok)
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

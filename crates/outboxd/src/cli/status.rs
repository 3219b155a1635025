//! `status`: how every pipe stands.

use std::time::Duration;

use jiff::Timestamp;
use outbox::admin::{COUNTED_AT_MOST, CursorStatus, Entry, Filter};
use serde_json::{Value, json};

use super::args::StatusArgs;
use super::output::Output;
use super::{Opened, choose, open};
use crate::options::Start;
use crate::plan::{Plan, SourcePlan};
use crate::quantity::{show_age, show_duration};
use crate::trouble::{Exit, Trouble};

/// One cursor, or a pipe that has not run yet.
struct Row {
    source: String,
    pipe: String,
    cursor: Option<CursorStatus>,
    lag_seconds: Option<f64>,
}

/// Shows every pipe. A source that does not answer does not hide the others.
pub async fn status(args: &StatusArgs, plan: &Plan, output: &mut Output) -> anyhow::Result<Exit> {
    let mut rows = Vec::new();
    let mut failed: Option<Trouble> = None;
    for source in choose(plan, args.source.as_deref())? {
        match look(plan, source).await {
            Ok(found) => rows.extend(found),
            Err(trouble) => {
                if let Some(earlier) = failed.replace(trouble) {
                    output.error(&earlier, earlier.help());
                }
            }
        }
    }
    if output.is_json() {
        output.json(&json!({ "pipes": rows.iter().map(to_json).collect::<Vec<_>>() }))?;
    } else if !rows.is_empty() {
        let header = ["pipe", "source", "owner", "pending", "lag", "waiting", "behind", "dead", "delivered"];
        let now = Timestamp::now();
        output.table(&header, &rows.iter().map(|row| to_cells(row, now)).collect::<Vec<_>>())?;
    }
    match (failed, args.max_lag) {
        (Some(trouble), _) => Err(trouble.into()),
        (None, Some(limit)) => check_lag(&rows, limit).map_err(Into::into),
        (None, None) => Ok(Exit::Ok),
    }
}

async fn look(plan: &Plan, source: &SourcePlan) -> Result<Vec<Row>, Trouble> {
    let opened = open(source).await?;
    let cursors = opened.log.admin().status().await;
    let cursors = cursors.map_err(|error| opened.trouble("cannot read the status", &error))?;
    let is_known = |name: &str| cursors.iter().any(|cursor| cursor.cursor == name);
    let mut rows = Vec::new();
    for pipe in plan.pipes_from(&source.name).filter(|pipe| !is_known(&pipe.name)) {
        // Nothing of the log has been carried by it: it is as far behind as the log is old.
        let lag_seconds =
            if pipe.options.start == Start::Beginning { age_of_log(&opened).await? } else { None };
        rows.push(Row { source: source.name.clone(), pipe: pipe.name.clone(), cursor: None, lag_seconds });
    }
    let known = cursors.into_iter().map(|cursor| Row {
        source: source.name.clone(),
        pipe: cursor.cursor.clone(),
        lag_seconds: cursor.lag_seconds,
        cursor: Some(cursor),
    });
    Ok(known.chain(rows).collect())
}

async fn age_of_log(opened: &Opened<'_>) -> Result<Option<f64>, Trouble> {
    let oldest = opened.log.admin().list(&Filter { limit: 1, ..Filter::default() }).await;
    let oldest = oldest.map_err(|error| opened.trouble("cannot read the status", &error))?;
    let age = |entry: &Entry| Timestamp::now().duration_since(entry.occurred_at).as_secs_f64().max(0.0);
    Ok(oldest.first().map(age))
}

fn to_json(row: &Row) -> Value {
    let mut shown = json!({ "source": row.source, "pipe": row.pipe, "started": row.cursor.is_some() });
    shown["lag_seconds"] = json!(row.lag_seconds);
    if let Some(cursor) = &row.cursor
        && let (Value::Object(shown), Ok(Value::Object(fields))) = (&mut shown, serde_json::to_value(cursor))
    {
        shown.extend(fields.into_iter().filter(|(name, _)| name != "cursor"));
    }
    shown
}

fn to_cells(row: &Row, now: Timestamp) -> Vec<String> {
    let Some(cursor) = &row.cursor else {
        let lag = row.lag_seconds.map_or("-".to_owned(), show_age);
        let mut cells = [&row.pipe, &row.source, "not started", "-", &lag].map(str::to_owned).to_vec();
        cells.resize(9, "-".to_owned());
        return cells;
    };
    let pipe = if cursor.lanes > 1 { format!("{}/{}", row.pipe, cursor.lane) } else { row.pipe.clone() };
    let owner = match (&cursor.owner, cursor.lease_until) {
        (Some(owner), Some(until)) if until < now => format!("gone: {owner}"),
        (Some(owner), _) => owner.clone(),
        (None, _) => "-".to_owned(),
    };
    vec![
        pipe,
        row.source.clone(),
        owner,
        counted(cursor.pending),
        row.lag_seconds.map_or("-".to_owned(), show_age),
        counted(cursor.waiting),
        counted(cursor.behind),
        counted(cursor.dead),
        cursor.delivered.map_or("-".to_owned(), |count| count.to_string()),
    ]
}

fn counted(count: u64) -> String {
    if count >= COUNTED_AT_MOST { format!("≥{COUNTED_AT_MOST}") } else { count.to_string() }
}

fn check_lag(rows: &[Row], limit: Duration) -> Result<Exit, Trouble> {
    let worst =
        rows.iter().filter_map(|row| Some((row.lag_seconds?, row))).max_by(|a, b| a.0.total_cmp(&b.0));
    match worst {
        Some((seconds, row)) if seconds > limit.as_secs_f64() => {
            let what = format!(
                "pipe '{}' is {} behind, the limit is {}",
                row.pipe,
                show_age(seconds),
                show_duration(limit)
            );
            Err(Trouble::new(Exit::Lag, what, "look at the log of its relay, and at what is dead or waiting"))
        }
        _ => Ok(Exit::Ok),
    }
}

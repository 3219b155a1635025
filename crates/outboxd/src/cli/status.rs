//! `status`: how every pipe stands, and who runs it.

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use outbox::admin::COUNTED_AT_MOST;

use super::activity;
use super::args::StatusArgs;
use super::output::Output;
use crate::ops::Office;
use crate::ops::instances::Instance;
use crate::ops::status::{self, Row, StatusRequest};
use crate::quantity::{show_age, show_duration};
use crate::trouble::{Exit, Trouble};

/// Shows every pipe. A source that does not answer does not hide the others, nor keep them waiting.
pub async fn status(args: &StatusArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let request = StatusRequest { source: args.source.clone(), activity: args.activity };
    let mut told = status::status(office, &request).await?;
    output.notes(&told.remarks);
    if output.is_json() {
        output.json(&told)?;
    } else {
        write_table(&told.pipes, output)?;
        write_instances(told.instances.as_deref().unwrap_or_default(), output)?;
        activity::write_tables(told.activity.as_deref().unwrap_or_default(), output)?;
    }
    if told.activity.as_ref().is_some_and(Vec::is_empty) && told.troubles.is_empty() {
        output.note(
            "no activity to show: a log does not write down when a message was done, a mapped table may",
        );
    }
    let too_late = args.max_lag.and_then(|limit| check_lag(&told.pipes, limit));
    told.troubles.extend(too_late);
    // What is known comes first, on a terminal too.
    output.flush()?;
    for trouble in &told.troubles {
        output.error(trouble, trouble.help());
    }
    Ok(told.troubles.first().map_or(Exit::Ok, |first| first.exit))
}

fn write_table(rows: &[Row], output: &mut Output) -> io::Result<()> {
    let mut header =
        vec!["pipe", "source", "owner", "pending", "lag", "waiting", "behind", "dead", "delivered"];
    let now = Timestamp::now();
    let mut lines: Vec<_> = rows.iter().map(|row| to_cells(row, now)).collect();
    for line in &mut lines {
        line.resize(header.len(), "-".to_owned());
    }
    if rows.iter().any(|row| row.error.is_some()) {
        header.push("trouble");
        for (line, row) in lines.iter_mut().zip(rows) {
            line.push(row.error.clone().unwrap_or_else(|| "-".to_owned()));
        }
    }
    output.table(&header, &lines)
}

/// What is known; the columns that are missing are not.
fn to_cells(row: &Row, now: Timestamp) -> Vec<String> {
    let pipe = row.pipe.as_deref().unwrap_or("-");
    let lag = row.lag_seconds.map_or("-".to_owned(), show_age);
    let Some(cursor) = &row.cursor else {
        let cells: &[&str] = match row.error {
            Some(_) => &[pipe, &row.source, "unknown"],
            None => &[pipe, &row.source, "not started", "-", &lag],
        };
        return cells.iter().map(|cell| (*cell).to_owned()).collect();
    };
    let owner = match (&cursor.owner, cursor.lease_until) {
        (Some(owner), Some(until)) if until < now => format!("gone: {owner}"),
        (Some(owner), _) => owner.clone(),
        (None, _) => "-".to_owned(),
    };
    vec![
        if cursor.lanes > 1 { format!("{pipe}/{}", cursor.lane) } else { pipe.to_owned() },
        row.source.clone(),
        owner,
        counted(cursor.pending),
        lag,
        counted(cursor.waiting),
        counted(cursor.behind),
        counted(cursor.dead),
        cursor.delivered.map_or("-".to_owned(), |count| count.to_string()),
    ]
}

fn counted(count: u64) -> String {
    if count >= COUNTED_AT_MOST { format!("≥{COUNTED_AT_MOST}") } else { count.to_string() }
}

fn write_instances(instances: &[Instance], output: &mut Output) -> io::Result<()> {
    if instances.is_empty() {
        return Ok(());
    }
    output.line("")?;
    let cells = |one: &Instance| {
        let last = one.last_message_at.map_or("-".to_owned(), |time| format!("{time:.0}"));
        vec![one.instance.clone(), one.pipe.clone(), one.told(), last, one.version.clone()]
    };
    let rows: Vec<_> = instances.iter().map(cells).collect();
    output.table(&["instance", "pipe", "state", "last message", "version"], &rows)
}

/// Whether a pipe is too far behind.
fn check_lag(rows: &[Row], limit: Duration) -> Option<Trouble> {
    let lags = rows.iter().filter_map(|row| Some((row.lag_seconds?, row.pipe.as_deref()?)));
    let (seconds, pipe) = lags.max_by(|a, b| a.0.total_cmp(&b.0))?;
    if seconds <= limit.as_secs_f64() {
        return None;
    }
    let what =
        format!("pipe '{pipe}' is {} behind, the limit is {}", show_age(seconds), show_duration(limit));
    Some(Trouble::new(Exit::Lag, what, "look at the log of its relay, and at what is dead or waiting"))
}

//! `status`: how every pipe stands, and who runs it.

use std::io;
use std::time::Duration;

use futures_util::future::{join, join_all};
use jiff::Timestamp;
use outbox::admin::{Activity, COUNTED_AT_MOST, CursorStatus, Entry, Filter};
use serde_json::{Value, json};

use super::args::StatusArgs;
use super::output::Output;
use super::{Opened, activity, choose, instances, open};
use crate::options::Start;
use crate::plan::{Plan, SourcePlan};
use crate::quantity::{show_age, show_duration};
use crate::trouble::{Exit, Trouble};

/// One cursor of a pipe, or a pipe without one.
struct Row {
    source: String,
    /// None where a source that is in trouble has no pipe.
    pipe: Option<String>,
    state: State,
    lag_seconds: Option<f64>,
}

enum State {
    Started(CursorStatus),
    NotStarted,
    /// Its source tells nothing, for this reason.
    Unknown {
        error: String,
        help: String,
    },
}

/// What a source told.
struct Look {
    source: String,
    rows: Vec<Row>,
    activity: Option<Activity>,
    trouble: Option<Trouble>,
}

/// Shows every pipe. A source that does not answer does not hide the others, nor keep them waiting.
pub async fn status(args: &StatusArgs, plan: &Plan, output: &mut Output) -> anyhow::Result<Exit> {
    let (on_brokers, sources): (Vec<_>, Vec<_>) =
        choose(plan, args.source.as_deref())?.into_iter().partition(|source| source.is_on_broker());
    for source in on_brokers {
        output.note(format_args!(
            "{}: on a broker, whose own tools tell what is in it; `outboxd dlq list` has its dead letters",
            source.name
        ));
    }
    let pipes_of = |source: &str| plan.pipes_from(source).map(|pipe| pipe.name.clone()).collect::<Vec<_>>();
    let pipes = args.source.as_deref().map(pipes_of);
    let looks = join_all(sources.into_iter().map(|source| look(plan, source, args.activity)));
    let (looks, instances) = join(looks, instances::read(plan, pipes.as_deref())).await;
    // Whether all goes well is told by the sources; who does it is told besides.
    let instances = instances.unwrap_or_else(|trouble| {
        // A database that is told of as a source is not told of twice.
        let is_audit = |look: &Look| {
            let connection = &plan.sources[&look.source].connection.name;
            plan.audit.as_ref().is_some_and(|audit| audit.connection.name == *connection)
        };
        if !looks.iter().any(|look| look.trouble.is_some() && is_audit(look)) {
            output.note(format_args!("{trouble}; {}", trouble.help()));
        }
        None
    });
    let (mut rows, mut activities, mut troubles) = (Vec::new(), Vec::new(), Vec::new());
    for look in looks {
        rows.extend(look.rows);
        activities.extend(look.activity.map(|activity| (look.source, activity)));
        troubles.extend(look.trouble);
    }
    if output.is_json() {
        let instances = instances.map(|seen| seen.iter().map(instances::to_json).collect::<Vec<_>>());
        let mut shown =
            json!({ "pipes": rows.iter().map(to_json).collect::<Vec<_>>(), "instances": instances });
        if args.activity {
            shown["activity"] =
                activities.iter().map(|(source, seen)| activity::to_json(source, seen)).collect();
        }
        output.json(&shown)?;
    } else {
        write_table(&rows, output)?;
        instances::write_table(instances.as_deref().unwrap_or_default(), output)?;
        activity::write_tables(&activities, output)?;
    }
    if args.activity && activities.is_empty() && troubles.is_empty() {
        output.note(
            "no activity to show: a log does not write down when a message was done, a mapped table may",
        );
    }
    let too_late = args.max_lag.and_then(|limit| check_lag(&rows, limit));
    troubles.extend(too_late);
    // What is known comes first, on a terminal too.
    output.flush()?;
    for trouble in &troubles {
        output.error(trouble, trouble.help());
    }
    Ok(troubles.first().map_or(Exit::Ok, |first| first.exit))
}

/// The same as `--format json` prints, for whoever looks again and again: what is wrong is in it. Who runs the pipes is
/// left out if it cannot be told.
pub async fn told(plan: &Plan, source: Option<&str>) -> Result<Value, Trouble> {
    let sources = choose(plan, source)?.into_iter().filter(|source| !source.is_on_broker());
    let looks = join_all(sources.map(|source| look(plan, source, false)));
    let (looks, instances) = join(looks, instances::read(plan, None)).await;
    let instances = instances.unwrap_or_default();
    Ok(json!({
        "pipes": looks.iter().flat_map(|look| &look.rows).map(to_json).collect::<Vec<_>>(),
        "instances": instances.map(|seen| seen.iter().map(instances::to_json).collect::<Vec<_>>()),
    }))
}

async fn look(plan: &Plan, source: &SourcePlan, with_activity: bool) -> Look {
    let mut look = Look { source: source.name.clone(), rows: Vec::new(), activity: None, trouble: None };
    match read(plan, source).await {
        Err(trouble) => {
            look.rows = unknown(plan, source, &trouble);
            look.trouble = Some(trouble);
        }
        Ok((opened, rows)) => {
            look.rows = rows;
            if with_activity {
                match opened.log.admin().activity().await {
                    Ok(activity) => look.activity = activity,
                    Err(error) => look.trouble = Some(opened.trouble("cannot read the activity", &error)),
                }
            }
        }
    }
    look
}

/// The rows of a source that tells nothing: one for every pipe that waits for it.
fn unknown(plan: &Plan, source: &SourcePlan, trouble: &Trouble) -> Vec<Row> {
    let row = |pipe: Option<String>| {
        let state = State::Unknown { error: trouble.to_string(), help: trouble.help().to_owned() };
        Row { source: source.name.clone(), pipe, state, lag_seconds: None }
    };
    let pipes: Vec<_> = plan.pipes_from(&source.name).map(|pipe| row(Some(pipe.name.clone()))).collect();
    if pipes.is_empty() { vec![row(None)] } else { pipes }
}

async fn read<'p>(plan: &Plan, source: &'p SourcePlan) -> Result<(Opened<'p>, Vec<Row>), Trouble> {
    let opened = open(source).await?;
    let cursors = opened.log.admin().status().await;
    let cursors = cursors.map_err(|error| opened.trouble("cannot read the status", &error))?;
    let is_known = |name: &str| cursors.iter().any(|cursor| cursor.cursor == name);
    let row = |pipe: &str, state: State, lag_seconds: Option<f64>| Row {
        source: source.name.clone(),
        pipe: Some(pipe.to_owned()),
        state,
        lag_seconds,
    };
    let mut fresh = Vec::new();
    for pipe in plan.pipes_from(&source.name).filter(|pipe| !is_known(&pipe.name)) {
        // Nothing of the log has been carried by it: it is as far behind as the log is old.
        let lag_seconds =
            if pipe.options.start == Start::Beginning { age_of_log(&opened).await? } else { None };
        fresh.push(row(&pipe.name, State::NotStarted, lag_seconds));
    }
    let started = cursors.into_iter().map(|cursor| {
        let (pipe, lag_seconds) = (cursor.cursor.clone(), cursor.lag_seconds);
        row(&pipe, State::Started(cursor), lag_seconds)
    });
    let rows = started.chain(fresh).collect();
    Ok((opened, rows))
}

async fn age_of_log(opened: &Opened<'_>) -> Result<Option<f64>, Trouble> {
    let oldest = opened.log.admin().list(&Filter { limit: 1, ..Filter::default() }).await;
    let oldest = oldest.map_err(|error| opened.trouble("cannot read the status", &error))?;
    let age = |entry: &Entry| Timestamp::now().duration_since(entry.occurred_at).as_secs_f64().max(0.0);
    Ok(oldest.first().map(age))
}

fn to_json(row: &Row) -> Value {
    let mut shown = json!({ "source": row.source, "pipe": row.pipe, "lag_seconds": row.lag_seconds });
    match &row.state {
        State::Started(cursor) => {
            shown["started"] = json!(true);
            if let (Value::Object(shown), Ok(Value::Object(fields))) =
                (&mut shown, serde_json::to_value(cursor))
            {
                shown.extend(fields.into_iter().filter(|(name, _)| name != "cursor"));
            }
        }
        State::NotStarted => shown["started"] = json!(false),
        State::Unknown { error, help } => (shown["error"], shown["help"]) = (json!(error), json!(help)),
    }
    shown
}

fn write_table(rows: &[Row], output: &mut Output) -> io::Result<()> {
    let mut header =
        vec!["pipe", "source", "owner", "pending", "lag", "waiting", "behind", "dead", "delivered"];
    let now = Timestamp::now();
    let mut lines: Vec<_> = rows.iter().map(|row| to_cells(row, now)).collect();
    for line in &mut lines {
        line.resize(header.len(), "-".to_owned());
    }
    if rows.iter().any(|row| matches!(row.state, State::Unknown { .. })) {
        header.push("trouble");
        for (line, row) in lines.iter_mut().zip(rows) {
            line.push(match &row.state {
                State::Unknown { error, .. } => error.clone(),
                _ => "-".to_owned(),
            });
        }
    }
    output.table(&header, &lines)
}

/// What is known; the columns that are missing are not.
fn to_cells(row: &Row, now: Timestamp) -> Vec<String> {
    let pipe = row.pipe.as_deref().unwrap_or("-");
    let lag = row.lag_seconds.map_or("-".to_owned(), show_age);
    let cursor = match &row.state {
        State::Started(cursor) => cursor,
        State::NotStarted => {
            return [pipe, &row.source, "not started", "-", &lag].map(str::to_owned).to_vec();
        }
        State::Unknown { .. } => return [pipe, &row.source, "unknown"].map(str::to_owned).to_vec(),
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

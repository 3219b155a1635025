//! How every pipe stands, and who runs it.

use futures_util::future::{join_all, join3};
use jiff::Timestamp;
use outbox::admin::{Activity, CursorStatus, Entry, Filter};
use outbox::pauses::Pause;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::instances::{self, Instance};
use super::pause::{PausedPipe, pauses};
use super::{Office, Opened, choose};
use crate::options::Start;
use crate::plan::{Plan, SourcePlan};
use crate::trouble::Trouble;

/// What to tell.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StatusRequest {
    /// Only this source.
    pub source: Option<String>,
    /// Also what went on lately, which may be slow over a large table.
    #[serde(default)]
    #[param(required = false)]
    pub activity: bool,
}

/// How everything stands.
#[derive(Debug, Serialize, ToSchema)]
pub struct Status {
    /// One for each pipe, or for each lane of it.
    pub pipes: Vec<Row>,
    /// Who runs them; none if nobody writes that down.
    pub instances: Option<Vec<Instance>>,
    /// Which pipes are paused, also from brokers.
    pub paused: Vec<PausedPipe>,
    /// What went on lately, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<Vec<SourceActivity>>,
    /// What does not answer, and why.
    #[serde(skip)]
    pub troubles: Vec<Trouble>,
    /// What else somebody should know.
    #[serde(skip)]
    pub remarks: Vec<String>,
}

/// One cursor of a pipe, or a pipe without one.
#[derive(Debug, Serialize, ToSchema)]
pub struct Row {
    /// The name of the source.
    pub source: String,
    /// None where a source that is in trouble has no pipe.
    pub pipe: Option<String>,
    /// Age of the oldest message that is not done and not dead.
    pub lag_seconds: Option<f64>,
    /// Whether the pipe has ever run; not there if its source tells nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<bool>,
    /// How it stands, once it has run.
    #[serde(flatten)]
    pub cursor: Option<Cursor>,
    /// Why its source tells nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What to do about that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// How a pipe that has run stands.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Cursor {
    /// The lane, from 0.
    #[schema(required = false)]
    pub lane: u32,
    /// How many lanes the pipe has.
    #[schema(required = false)]
    pub lanes: u32,
    /// Who holds the lease, if anybody.
    pub owner: Option<String>,
    /// When the lease ends; in the past when the owner is gone.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub lease_until: Option<Timestamp>,
    /// Committed and not yet done; 10000 means that or more.
    #[schema(required = false)]
    pub pending: u64,
    /// Set aside and to be tried again.
    #[schema(required = false)]
    pub waiting: u64,
    /// Set aside because an earlier one of the key is not done.
    #[schema(required = false)]
    pub behind: u64,
    /// Set aside until a person decides.
    #[schema(required = false)]
    pub dead: u64,
    /// Done since the pipe exists; none if nobody counts.
    pub delivered: Option<u64>,
}

/// What went on in a source lately.
#[derive(Debug, Serialize, ToSchema)]
pub struct SourceActivity {
    /// The name of the source.
    pub source: String,
    /// Not done, not given up, and tried three times or more.
    pub tried_often: u64,
    /// Done in the last hour.
    pub done_last_hour: u64,
    /// The last hour, newest first, without empty minutes.
    pub by_minute: Vec<Minute>,
}

/// What was done in a minute.
#[derive(Debug, Serialize, ToSchema)]
pub struct Minute {
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    pub minute: Timestamp,
    /// How many were done in it.
    pub done: u64,
}

impl SourceActivity {
    /// What a source tells of itself.
    pub fn new(source: &str, activity: &Activity) -> Self {
        let minutes = activity.by_minute.iter();
        Self {
            source: source.to_owned(),
            tried_often: activity.tried_often,
            done_last_hour: activity.done_last_hour,
            by_minute: minutes.map(|(minute, done)| Minute { minute: *minute, done: *done }).collect(),
        }
    }
}

impl From<&CursorStatus> for Cursor {
    fn from(cursor: &CursorStatus) -> Self {
        Self {
            lane: cursor.lane,
            lanes: cursor.lanes,
            owner: cursor.owner.clone(),
            lease_until: cursor.lease_until,
            pending: cursor.pending,
            waiting: cursor.waiting,
            behind: cursor.behind,
            dead: cursor.dead,
            delivered: cursor.delivered,
        }
    }
}

/// What a source told.
struct Look {
    source: String,
    rows: Vec<Row>,
    activity: Option<SourceActivity>,
    trouble: Option<Trouble>,
}

/// How every pipe stands. A source that does not answer does not hide the others, nor keep them waiting.
pub async fn status(office: &Office, request: &StatusRequest) -> Result<Status, Trouble> {
    let plan = &*office.plan;
    let (on_brokers, sources): (Vec<_>, Vec<_>) =
        choose(plan, request.source.as_deref())?.into_iter().partition(|source| source.is_on_broker());
    let on_broker = |source: &SourcePlan| {
        format!(
            "{}: on a broker, whose own tools tell what is in it; `outboxd dlq list` has its dead letters",
            source.name
        )
    };
    let mut remarks: Vec<String> = on_brokers.into_iter().map(on_broker).collect();
    let pipes_of = |source: &str| plan.pipes_from(source).map(|pipe| pipe.name.clone()).collect::<Vec<_>>();
    let pipes = request.source.as_deref().map(pipes_of);
    let looks = join_all(sources.into_iter().map(|source| look(office, source, request.activity)));
    let (looks, instances, paused) =
        join3(looks, instances::read(office, pipes.as_deref()), pauses(office)).await;
    // Whether all goes well is told by the sources; who does it is told besides.
    let instances = instances.unwrap_or_else(|trouble| {
        // A database that is told of as a source is not told of twice.
        let is_audit = |look: &Look| {
            let connection = &plan.sources[&look.source].connection.name;
            plan.audit.as_ref().is_some_and(|audit| audit.connection.name == *connection)
        };
        if !looks.iter().any(|look| look.trouble.is_some() && is_audit(look)) {
            remarks.push(format!("{trouble}; {}", trouble.help()));
        }
        None
    });
    // Where the database is away the instances have told of it.
    let paused = paused.unwrap_or_default();
    let is_meant = |pause: &&Pause| pipes.as_ref().is_none_or(|pipes| pipes.contains(&pause.pipe));
    let paused = paused.iter().filter(is_meant).map(Into::into).collect();
    let (mut rows, mut activities, mut troubles) = (Vec::new(), Vec::new(), Vec::new());
    for look in looks {
        rows.extend(look.rows);
        activities.extend(look.activity);
        troubles.extend(look.trouble);
    }
    let activity = request.activity.then_some(activities);
    Ok(Status { pipes: rows, instances, paused, activity, troubles, remarks })
}

async fn look(office: &Office, source: &SourcePlan, with_activity: bool) -> Look {
    let mut look = Look { source: source.name.clone(), rows: Vec::new(), activity: None, trouble: None };
    match office.look("cannot read the status", read(office, source)).await {
        Err(trouble) => {
            look.rows = unknown(&office.plan, source, &trouble);
            look.trouble = Some(trouble);
        }
        Ok((opened, rows)) => {
            look.rows = rows;
            if with_activity {
                match activity_in(office, async { Ok(opened) }).await {
                    Ok(told) => look.activity = told,
                    Err(trouble) => look.trouble = Some(trouble),
                }
            }
        }
    }
    look
}

/// What went on lately in every outbox that writes it down, all at once, and what those said that do not answer. Over a
/// large table without an index on the time at which a row was done it is slow, and costs the database something: whoever
/// asks does so seldom.
pub async fn activities(office: &Office) -> (Vec<SourceActivity>, Vec<Trouble>) {
    let outboxes = office.plan.sources.values().filter(|source| !source.is_on_broker());
    let (mut told, mut troubles) = (Vec::new(), Vec::new());
    for asked in join_all(outboxes.map(|source| activity_in(office, office.open(source)))).await {
        match asked {
            Ok(activity) => told.extend(activity),
            Err(trouble) => troubles.push(trouble),
        }
    }
    (told, troubles)
}

async fn activity_in(
    office: &Office,
    opened: impl Future<Output = Result<Opened<'_>, Trouble>>,
) -> Result<Option<SourceActivity>, Trouble> {
    let doing = "cannot read the activity";
    let asked = async {
        let opened = opened.await?;
        let told = opened.log.admin().activity().await;
        let told = told.map_err(|error| opened.trouble(doing, &error))?;
        Ok(told.map(|told| SourceActivity::new(&opened.source.name, &told)))
    };
    office.look(doing, asked).await
}

fn row(source: &SourcePlan, pipe: Option<&str>) -> Row {
    Row {
        source: source.name.clone(),
        pipe: pipe.map(str::to_owned),
        lag_seconds: None,
        started: None,
        cursor: None,
        error: None,
        help: None,
    }
}

/// The rows of a source that tells nothing: one for every pipe that waits for it.
fn unknown(plan: &Plan, source: &SourcePlan, trouble: &Trouble) -> Vec<Row> {
    let row = |pipe: Option<&str>| {
        let (error, help) = (Some(trouble.to_string()), Some(trouble.help().to_owned()));
        Row { error, help, ..row(source, pipe) }
    };
    let pipes: Vec<_> = plan.pipes_from(&source.name).map(|pipe| row(Some(&pipe.name))).collect();
    if pipes.is_empty() { vec![row(None)] } else { pipes }
}

async fn read<'p>(office: &Office, source: &'p SourcePlan) -> Result<(Opened<'p>, Vec<Row>), Trouble> {
    let opened = office.open(source).await?;
    let cursors = opened.log.admin().status().await;
    let cursors = cursors.map_err(|error| opened.trouble("cannot read the status", &error))?;
    let is_known = |name: &str| cursors.iter().any(|cursor| cursor.cursor == name);
    let mut fresh = Vec::new();
    for pipe in office.plan.pipes_from(&source.name).filter(|pipe| !is_known(&pipe.name)) {
        // Nothing of the log has been carried by it: it is as far behind as the log is old.
        let lag_seconds =
            if pipe.options.start == Start::Beginning { age_of_log(&opened).await? } else { None };
        fresh.push(Row { started: Some(false), lag_seconds, ..row(source, Some(&pipe.name)) });
    }
    let started = cursors.iter().map(|cursor| Row {
        started: Some(true),
        lag_seconds: cursor.lag_seconds,
        cursor: Some(cursor.into()),
        ..row(source, Some(&cursor.cursor))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a10_the_activity_answers_every_question() {
        let minute = |text: &str| text.parse().expect("it is a time");
        let by_minute = vec![(minute("2026-03-01T12:01:00Z"), 40), (minute("2026-03-01T12:00:00Z"), 2)];
        let seen = Activity { tried_often: 3, done_last_hour: 42, by_minute };
        let expected = json!({
            "source": "orders",
            "tried_often": 3,
            "done_last_hour": 42,
            "by_minute": [
                { "minute": "2026-03-01T12:01:00Z", "done": 40 },
                { "minute": "2026-03-01T12:00:00Z", "done": 2 },
            ],
        });
        assert_eq!(json!(SourceActivity::new("orders", &seen)), expected);
    }
}

//! All that waits for a person, wherever it lies, grouped by cause.
//!
//! A look is bounded, in number and in time: a page must not hang because a broker does, or because a million messages
//! have died. What could not be looked at is told beside the rest.

use std::collections::BTreeMap;
use std::future::Future;
use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use outbox::errors::ErrorRecord;
use serde::Serialize;
use utoipa::ToSchema;

use super::Office;
use super::dead::{self, Dead, Picked, Wanted};
use super::errors::{Chosen, Desk, tables};
use crate::backends;
use crate::plan::{Layout, SourcePlan};
use crate::trouble::{Exit, Trouble};

/// So long may one place take.
const PATIENCE: Duration = Duration::from_secs(2);

/// So many of a place are counted, from the oldest on.
const MOST: NonZeroU32 = NonZeroU32::new(10_000).expect("it is not zero");

/// So many ids of a group are named.
const SAMPLE: usize = 5;

/// Where failures lie.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[schema(as = FailurePlace)]
pub enum Place {
    /// Set aside as dead in an outbox.
    Outbox {
        /// The source.
        source: String,
        /// The pipe that has given it up; none if that is not known yet.
        pipe: Option<String>,
    },
    /// In a queue or topic of dead letters.
    Letters {
        /// The source whose dead letters they are.
        source: String,
        /// The queue or topic.
        place: String,
    },
    /// Open in an error table.
    Errors {
        /// The sink whose table it is.
        sink: String,
    },
}

/// Failures of one cause at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = FailureGroup)]
pub struct Group {
    /// Where.
    pub place: Place,
    /// The cause, as in HTTP_500; - if nobody knows it.
    pub code: String,
    /// The type of the messages.
    #[serde(rename = "type")]
    pub kind: String,
    /// What was said of the newest.
    pub detail: String,
    /// How many.
    pub count: u64,
    /// Whether there may be more, because not all of the place was looked at.
    pub at_least: bool,
    /// When the first failed; of an outbox, which does not write that down, when it happened.
    #[schema(value_type = String, format = DateTime)]
    pub first_seen: Timestamp,
    /// When the last was given up; of an outbox, when it happened.
    #[schema(value_type = String, format = DateTime)]
    pub last_seen: Timestamp,
    /// The ids of the first messages.
    pub ids: Vec<String>,
}

/// A place that could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Hidden {
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub error: String,
    /// What to do about it.
    pub help: String,
}

/// All that waits for a person.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Failures {
    /// By place and cause, the largest first.
    pub groups: Vec<Group>,
    /// What could not be looked at.
    pub hidden: Vec<Hidden>,
}

/// Looks at every place, all at once.
pub async fn failures(office: &Office) -> Failures {
    let sources = join_all(office.plan.sources.values().map(|source| {
        let place = place_of(source);
        async move { in_time(place, at_source(office, source)).await }
    }));
    let tables = join_all(tables(&office.plan).map(|table| {
        let place = Place::Errors { sink: table.0.to_owned() };
        async move {
            let look = async {
                let desk = Desk::open(office, table).await?;
                let chosen = Chosen { most: Some(MOST), ..Chosen::default() };
                let (records, more) = desk.choose(&[], &chosen).await?;
                let failed = |record| Failed::of_record(Place::Errors { sink: desk.sink.to_owned() }, record);
                Ok((records.iter().map(failed).collect(), more))
            };
            in_time(place, look).await
        }
    }));
    let (sources, tables) = futures_util::join!(sources, tables);
    let mut all = Failures::default();
    for looked in sources.into_iter().chain(tables) {
        match looked {
            Ok((failed, more)) => all.groups.extend(group(failed, more)),
            Err(hidden) => all.hidden.push(hidden),
        }
    }
    all.groups.sort_by(|one, other| {
        (other.count, other.last_seen)
            .cmp(&(one.count, one.last_seen))
            .then_with(|| one.place.cmp(&other.place))
    });
    all
}

/// What was seen at a place, and whether there is more.
type Looked = (Vec<Failed>, bool);

async fn at_source(office: &Office, source: &SourcePlan) -> Result<Looked, Trouble> {
    let wanted = Wanted::new(&[], Picked { most: Some(MOST), ..Picked::default() });
    let seen = dead::Place::open(office, source).await?.look(office, &wanted, true).await?;
    let place = |dead: &Dead| match place_of(source) {
        Place::Outbox { source, .. } => Place::Outbox { source, pipe: dead.pipe.clone() },
        other => other,
    };
    Ok((seen.dead.iter().map(|dead| Failed::of_dead(place(dead), dead)).collect(), seen.more))
}

async fn in_time(
    place: Place,
    look: impl Future<Output = Result<Looked, Trouble>>,
) -> Result<Looked, Hidden> {
    let looked = tokio::time::timeout(PATIENCE, look).await.unwrap_or_else(|_| {
        let what = format!("it was not looked at within {PATIENCE:?}");
        Err(Trouble::new(
            Exit::Source,
            what,
            "try again, or look with `outboxd dlq list` or `outboxd errors list`",
        ))
    });
    looked.map_err(|trouble| Hidden { place, error: trouble.to_string(), help: trouble.help().to_owned() })
}

fn place_of(source: &SourcePlan) -> Place {
    let letters = |place: &str| Place::Letters { source: source.name.clone(), place: place.to_owned() };
    match &source.layout {
        Layout::Queue(options) => letters(&options.dead),
        Layout::Topic(options) => {
            let config = backends::group_config(options);
            let names: Vec<String> = options.topics.iter().map(|topic| config.dead_name(topic)).collect();
            letters(&names.join(", "))
        }
        Layout::Log(_) | Layout::Table(_) => Place::Outbox { source: source.name.clone(), pipe: None },
    }
}

/// One failure.
#[derive(Debug, Clone)]
struct Failed {
    place: Place,
    code: String,
    kind: String,
    detail: String,
    id: String,
    first: Timestamp,
    last: Timestamp,
}

impl Failed {
    fn of_dead(place: Place, dead: &Dead) -> Self {
        let last = dead.since();
        Self {
            place,
            code: dead.cause.as_ref().map_or("-".to_owned(), |cause| cause.code.to_string()),
            kind: dead.message.kind.clone(),
            detail: dead.cause.as_ref().map(|cause| cause.detail.clone()).unwrap_or_default(),
            id: dead.message.id.to_string(),
            first: dead.first_failed_at.unwrap_or(last),
            last,
        }
    }

    fn of_record(place: Place, record: &ErrorRecord) -> Self {
        Self {
            place,
            code: record.cause.code.to_string(),
            kind: record.kind.clone(),
            detail: record.cause.detail.clone(),
            id: record.id.clone(),
            first: record.first_seen,
            last: record.last_seen,
        }
    }
}

/// By place, cause and type. `more` says that there are failures that were not looked at.
fn group(failed: Vec<Failed>, more: bool) -> Vec<Group> {
    let mut groups: BTreeMap<(Place, String, String), Group> = BTreeMap::new();
    for one in failed {
        let key = (one.place.clone(), one.code.clone(), one.kind.clone());
        let group = groups.entry(key).or_insert_with(|| Group {
            place: one.place,
            code: one.code,
            kind: one.kind,
            detail: one.detail.clone(),
            count: 0,
            at_least: more,
            first_seen: one.first,
            last_seen: one.last,
            ids: Vec::new(),
        });
        if one.last > group.last_seen {
            group.detail = one.detail;
        }
        group.count += 1;
        group.first_seen = group.first_seen.min(one.first);
        group.last_seen = group.last_seen.max(one.last);
        if group.ids.len() < SAMPLE {
            group.ids.push(one.id);
        }
    }
    groups.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(code: &str, kind: &str, second: i64) -> Failed {
        Failed {
            place: Place::Errors { sink: "errors".to_owned() },
            code: code.to_owned(),
            kind: kind.to_owned(),
            detail: format!("said at {second}"),
            id: format!("{kind}-{second}"),
            first: Timestamp::from_second(second - 1).expect("a time"),
            last: Timestamp::from_second(second).expect("a time"),
        }
    }

    #[test]
    fn failures_of_one_place_cause_and_type_are_one_group_with_what_was_last_said() {
        let mut all: Vec<Failed> =
            [30, 10, 50, 20, 40, 60].map(|second| failed("HTTP_500", "a", second)).to_vec();
        all.push(failed("HTTP_500", "b", 1));
        all.push(failed("HTTP_410", "a", 2));
        let other = Place::Outbox { source: "orders".to_owned(), pipe: Some("relay".to_owned()) };
        all.push(Failed { place: other.clone(), ..failed("HTTP_500", "a", 3) });
        let groups = group(all, false);
        assert_eq!(groups.len(), 4, "{groups:#?}");
        let most = groups.iter().find(|group| group.count == 6).expect("the six");
        assert_eq!((most.code.as_str(), most.kind.as_str(), most.at_least), ("HTTP_500", "a", false));
        assert_eq!(most.detail, "said at 60");
        assert_eq!((most.first_seen.as_second(), most.last_seen.as_second()), (9, 60));
        assert_eq!(most.ids, ["a-30", "a-10", "a-50", "a-20", "a-40"], "a sample, in the order of the place");
        assert!(groups.iter().any(|group| group.place == other && group.count == 1));
    }

    #[test]
    fn what_was_not_all_looked_at_is_counted_as_at_least() {
        assert!(
            group(vec![failed("X", "a", 1), failed("Y", "a", 1)], true).iter().all(|group| group.at_least)
        );
        assert!(group(Vec::new(), true).is_empty());
    }

    #[test]
    fn a_place_is_told_by_its_kind() {
        let told = serde_json::to_value(Place::Outbox { source: "o".to_owned(), pipe: None }).expect("JSON");
        assert_eq!(told, serde_json::json!({ "kind": "outbox", "source": "o", "pipe": null }));
    }
}

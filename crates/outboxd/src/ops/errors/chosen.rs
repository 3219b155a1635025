//! Which errors are meant. Pure.

use std::num::NonZeroU32;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outbox::errors::{ErrorFilter, ErrorRecord, Resolution};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::ops::asked;
use crate::ops::check_id;
use crate::ops::told::without_nulls;
use crate::trouble::Trouble;

/// Asked for so many at a time.
const PAGE: u32 = 500;

/// So many of a table are meant at most, if nobody says how many.
const MOST: u32 = 10_000;

/// How an error stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Somebody should look at it.
    #[default]
    Open,
    /// Sent back to where it failed.
    Returned,
    /// Nothing is left to do.
    Resolved,
    /// However it stands.
    Any,
}

impl Standing {
    /// The one that is meant, if it is one.
    pub fn resolution(self) -> Option<Resolution> {
        match self {
            Self::Open => Some(Resolution::Open),
            Self::Returned => Some(Resolution::Returned),
            Self::Resolved => Some(Resolution::Resolved),
            Self::Any => None,
        }
    }
}

/// Which errors are meant; what is not set matches everything.
#[derive(Debug, Clone, Default, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Chosen {
    /// Only in the table of this sink.
    pub sink: Option<String>,
    /// How they stand: `open` unless set.
    pub state: Standing,
    /// Of this type; a trailing * matches any ending.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Of this key.
    pub key: Option<String>,
    /// With this cause, as in HTTP_500.
    pub code: Option<String>,
    /// From this queue or topic.
    pub origin: Option<String>,
    /// Last failed longer ago than this, as in 2h.
    #[serde(deserialize_with = "asked::duration")]
    #[schema(value_type = Option<String>)]
    #[param(value_type = Option<String>)]
    pub older_than: Option<Duration>,
    /// Last failed within this time, as in 30m.
    #[serde(deserialize_with = "asked::duration")]
    #[schema(value_type = Option<String>)]
    #[param(value_type = Option<String>)]
    pub newer_than: Option<Duration>,
    /// No more than so many of each table; 10,000 unless set.
    #[schema(value_type = Option<u32>)]
    #[param(value_type = Option<u32>)]
    pub most: Option<NonZeroU32>,
}

impl Chosen {
    /// No more than so many of each table.
    pub fn most(&self) -> usize {
        usize::try_from(self.most.map_or(MOST, NonZeroU32::get)).unwrap_or(usize::MAX)
    }

    /// Whether it narrows down which are meant.
    pub fn says_which(&self) -> bool {
        let Self { sink, kind, key, code, origin, older_than, newer_than, state: _, most: _ } = self;
        let texts = [sink, kind, key, code, origin];
        texts.into_iter().any(Option::is_some) || older_than.or(*newer_than).is_some()
    }

    /// Whether there can be such errors.
    pub fn check(&self, ids: &[String]) -> Result<(), Trouble> {
        let Self { sink, kind, key, code, origin, .. } = self;
        let texts = [sink, kind, key, code, origin].into_iter().flatten();
        texts.chain(ids).try_for_each(|text| check_id(text))
    }

    /// The filter of the library.
    pub fn filter(&self, now: Timestamp) -> ErrorFilter {
        // What is longer than time itself is older than anything.
        let ago = |time: Duration| {
            SignedDuration::try_from(time)
                .ok()
                .and_then(|time| now.checked_sub(time).ok())
                .unwrap_or(Timestamp::MIN)
        };
        ErrorFilter {
            kind: self.kind.clone(),
            code: self.code.clone(),
            key: self.key.clone(),
            origin: self.origin.clone(),
            older_than: self.older_than.map(ago),
            newer_than: self.newer_than.map(ago),
            resolution: self.state.resolution(),
            limit: PAGE,
            ..ErrorFilter::default()
        }
    }

    /// What was set, for the record.
    pub fn to_json(&self, ids: &[String]) -> Value {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        without_nulls(json!({
            "ids": if ids.is_empty() { None } else { Some(ids) },
            "state": self.state.resolution(),
            "type": self.kind,
            "key": self.key,
            "code": self.code,
            "origin": self.origin,
            "older_than_seconds": seconds(self.older_than),
            "newer_than_seconds": seconds(self.newer_than),
        }))
    }
}

/// The filter once more, for what was found by its id.
pub fn fits(record: &ErrorRecord, filter: &ErrorFilter) -> bool {
    let of_kind = |kind: &String| {
        kind.strip_suffix('*').map_or(record.kind == *kind, |start| record.kind.starts_with(start))
    };
    filter.kind.as_ref().is_none_or(of_kind)
        && filter.code.as_ref().is_none_or(|code| record.cause.code == code.as_str())
        && filter.key.as_ref().is_none_or(|key| record.key.as_ref() == Some(key))
        && filter.origin.as_ref().is_none_or(|origin| record.origin == *origin)
        && filter.older_than.is_none_or(|time| record.last_seen < time)
        && filter.newer_than.is_none_or(|time| record.last_seen >= time)
        && filter.resolution.is_none_or(|resolution| record.resolution == resolution)
}

//! Which dead letters are meant, and what a person asks for. Pure.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outbox::letters::Pace;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::Dead;
use crate::ops::asked;
use crate::ops::check_id;
use crate::ops::told::without_nulls;
use crate::trouble::Trouble;

/// So many of a place are looked at, if nobody says how many.
const MOST: u32 = 10_000;

/// Which dead letters are meant; what is not set matches everything.
#[derive(Debug, Clone, Default, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Picked {
    /// Only this source.
    pub source: Option<String>,
    /// Of this type; a trailing * matches any ending.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Of this key.
    pub key: Option<String>,
    /// With this cause, as in HTTP_500.
    pub code: Option<String>,
    /// Died longer ago than this, as in 2h.
    #[serde(deserialize_with = "asked::duration")]
    #[schema(value_type = Option<String>)]
    #[param(value_type = Option<String>)]
    pub older_than: Option<Duration>,
    /// Died within this time, as in 30m.
    #[serde(deserialize_with = "asked::duration")]
    #[schema(value_type = Option<String>)]
    #[param(value_type = Option<String>)]
    pub newer_than: Option<Duration>,
    /// Looks at no more than so many of each source, from the oldest on; 10,000 unless set.
    #[schema(value_type = Option<u32>)]
    #[param(value_type = Option<u32>)]
    pub most: Option<NonZeroU32>,
}

impl Picked {
    /// Whether it narrows down which are meant.
    fn says_which(&self) -> bool {
        let Self { source, kind, key, code, older_than, newer_than, most: _ } = self;
        let texts = [source, kind, key, code];
        texts.into_iter().any(Option::is_some) || older_than.or(*newer_than).is_some()
    }

    /// So many are looked at.
    pub fn most(&self) -> u32 {
        self.most.map_or(MOST, NonZeroU32::get)
    }
}

/// What to do with which dead letters.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeadLettersRequest)]
pub struct ActRequest {
    /// These letters; without ids all that match.
    #[serde(default, deserialize_with = "asked::ids")]
    #[schema(min_items = 1)]
    pub ids: Vec<String>,
    /// Which letters.
    #[serde(flatten)]
    pub picked: Picked,
    /// No more than so many in a time, as in 50/s or 10/m.
    #[serde(default, deserialize_with = "asked::rate")]
    #[schema(value_type = Option<String>)]
    pub rate: Option<Pace>,
    /// All are meant: for whoever neither names ids nor says which.
    #[serde(default)]
    pub all: bool,
    /// Only tells what is meant.
    #[serde(default)]
    pub dry_run: bool,
}

impl ActRequest {
    /// Whether somebody says which letters are meant, or that it is all of them.
    pub fn is_meant(&self) -> Result<(), Trouble> {
        asked::not_all_by_mistake(self.all, &[self.dry_run, !self.ids.is_empty(), self.picked.says_which()])
    }
}

/// Which letters are meant.
#[derive(Debug, Clone)]
pub struct Wanted {
    ids: BTreeSet<String>,
    /// What else they are.
    pub picked: Picked,
}

impl Wanted {
    /// These ids, or all; as picked.
    pub fn new(ids: &[String], picked: Picked) -> Self {
        Self { ids: ids.iter().cloned().collect(), picked }
    }

    /// Whether there can be such letters.
    pub fn check(&self) -> Result<(), Trouble> {
        let Picked { source, kind, key, code, .. } = &self.picked;
        let texts = [source, kind, key, code].into_iter().flatten();
        texts.chain(&self.ids).try_for_each(|text| check_id(text))
    }

    /// The ids that are asked for by name.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.ids.iter().map(String::as_str)
    }

    /// So many letters of a broker are looked at. A broker finds a letter only by going through all before it, so what is
    /// asked for by name has no end but the one that somebody sets; whoever `glances` sees no more than so many.
    pub fn depth(&self, glances: Option<usize>) -> usize {
        let most = usize::try_from(self.picked.most()).unwrap_or(usize::MAX);
        match glances {
            _ if !self.ids.is_empty() => {
                self.picked.most.map_or(usize::MAX, |most| usize::try_from(most.get()).unwrap_or(usize::MAX))
            }
            Some(few) => most.min(few),
            None => most,
        }
    }

    /// Whether this one is meant.
    pub fn takes(&self, dead: &Dead, now: Timestamp) -> bool {
        let Picked { kind, key, code, older_than, newer_than, .. } = &self.picked;
        let message = &dead.message;
        let age = now.duration_since(dead.since());
        (self.ids.is_empty() || self.ids.contains(message.id.as_str()))
            && kind.as_ref().is_none_or(|kind| is_of_kind(&message.kind, kind))
            && key.as_ref().is_none_or(|key| message.key.as_ref() == Some(key))
            && code
                .as_ref()
                .is_none_or(|code| dead.cause.as_ref().is_some_and(|cause| cause.code == code.as_str()))
            && older_than.is_none_or(|limit| age > signed(limit))
            && newer_than.is_none_or(|limit| age <= signed(limit))
    }

    /// The ids that were asked for by name and are not among these.
    pub fn missing<'d>(&self, found: impl IntoIterator<Item = &'d Dead>) -> Vec<String> {
        let found: BTreeSet<&str> = found.into_iter().map(|dead| dead.message.id.as_str()).collect();
        self.ids.iter().filter(|id| !found.contains(id.as_str())).cloned().collect()
    }

    /// The flags in words, for the record.
    pub fn to_json(&self) -> Value {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let all = json!({
            "ids": if self.ids.is_empty() { None } else { Some(&self.ids) },
            "source": self.picked.source,
            "type": self.picked.kind,
            "key": self.picked.key,
            "code": self.picked.code,
            "older_than_seconds": seconds(self.picked.older_than),
            "newer_than_seconds": seconds(self.picked.newer_than),
        });
        without_nulls(all)
    }
}

fn is_of_kind(kind: &str, wanted: &str) -> bool {
    wanted.strip_suffix('*').map_or(kind == wanted, |start| kind.starts_with(start))
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use outbox::broker::Died;
    use outbox::{Cause, Message, letters};

    use super::*;

    fn dead(kind: &str, key: &str, code: &'static str, minutes: i64) -> Dead {
        let message = Message::new(kind, "x").key(key).id("1");
        let at = Some(
            "2026-01-01T12:00:00Z".parse::<Timestamp>().expect("a time") - SignedDuration::from_mins(minutes),
        );
        Dead::letter(
            "q",
            letters::Letter::new(message, Died { cause: Some(Cause::new(code, "")), at, ..Died::default() }),
        )
    }

    #[test]
    fn flags_choose_by_id_type_key_cause_and_age() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().expect("a time");
        let none = Picked::default();
        let takes = |ids: &[&str], change: &dyn Fn(&mut Picked)| {
            let mut picked = none.clone();
            change(&mut picked);
            let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            Wanted::new(&ids, picked).takes(&dead("order.created", "k", "HTTP_500", 90), now)
        };
        let hour = Some(Duration::from_secs(3_600));
        assert!(takes(&[], &|_| {}) && takes(&["1", "2"], &|_| {}) && !takes(&["2"], &|_| {}));
        assert!(takes(&[], &|picked| picked.kind = Some("order.*".into())));
        assert!(!takes(&[], &|picked| picked.kind = Some("order".into())));
        assert!(takes(&[], &|picked| picked.key = Some("k".into())));
        assert!(!takes(&[], &|picked| picked.code = Some("HTTP".into())));
        assert!(
            takes(&[], &|picked| picked.older_than = hour) && !takes(&[], &|picked| picked.newer_than = hour)
        );
        let wanted = Wanted::new(&["1".into(), "2".into()], none);
        assert_eq!(wanted.missing([&dead("a", "k", "X", 1)]), ["2"]);
        assert_eq!(wanted.to_json(), json!({ "ids": ["1", "2"] }));
    }

    #[test]
    fn who_names_letters_looks_at_all_and_who_glances_at_few() {
        let depth = |ids: &[String], most, glances| {
            Wanted::new(ids, Picked { most: NonZeroU32::new(most), ..Picked::default() }).depth(glances)
        };
        let named = ["1".to_owned()];
        assert_eq!(
            (depth(&[], 0, None), depth(&[], 0, Some(500)), depth(&[], 7, Some(500))),
            (10_000, 500, 7)
        );
        assert_eq!((depth(&named, 0, None), depth(&named, 0, Some(500))), (usize::MAX, usize::MAX));
        assert_eq!(depth(&named, 100_000, Some(500)), 100_000);
    }

    #[test]
    fn a_request_has_no_fields_that_nobody_knows() {
        let text = r#"{ "ids": ["1"], "type": "order.*", "older_than": "2h", "most": 5, "rate": "10/s", "dry_run": true }"#;
        let request: ActRequest = serde_json::from_str(text).expect("it is sound");
        assert_eq!((request.picked.kind.as_deref(), request.picked.most()), (Some("order.*"), 5));
        assert_eq!(request.picked.older_than, Some(Duration::from_secs(7_200)));
        assert!(request.dry_run && request.rate.is_some());
        for (wrong, word) in [
            (r#"{ "kind": "order" }"#, "kind"),
            (r#"{ "older_than": 7 }"#, "expected"),
            (r#"{ "older_than": "7" }"#, "a duration is"),
            (r#"{ "rate": "7" }"#, "a rate is"),
            (r#"{ "most": 0 }"#, "nonzero"),
        ] {
            let error = serde_json::from_str::<ActRequest>(wrong).expect_err(wrong).to_string();
            assert!(error.contains(word), "{wrong}: {error}");
        }
        assert!(serde_json::from_str::<Picked>(r#"{ "kind": "order" }"#).is_err());
    }
}

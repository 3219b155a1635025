//! What is to be done to many at once. Pure.

use std::time::Duration;

use jiff::Timestamp;
use outbox::admin::Stand;
use serde::Deserialize;

use super::edit::mark;
use super::said::{carried, shell};
use crate::ops::Selection;
use crate::ops::failures::{Group, Place};
use crate::ops::messages::Listed;
use crate::trouble::Trouble;

/// What nobody knows, a type or a cause, is told as this. No filter finds it, and to drop the filter would mean all.
pub(super) const UNKNOWN: &str = "-";

/// What to do with what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Deed {
    /// `retry`, `skip`, `discard` or `resolve`.
    pub(super) verb: String,
    /// `outbox`, `letters` or `errors`.
    pub(super) place: String,
    /// The source, or the sink of an error table.
    pub(super) name: String,
    /// Which messages of an outbox.
    pub(super) filter: String,
    /// Which letters or errors: their type, …
    pub(super) kind: String,
    /// … their cause, …
    pub(super) code: String,
    /// … and this one, if it is about one.
    pub(super) id: Option<String>,
    /// What was found or done, for whoever reads the table later.
    pub(super) note: String,
    /// Where to go after that.
    pub(super) back: String,
    /// So many were shown to whoever presses the button, …
    pub(super) shown: Option<u64>,
    /// … who looked at this time, …
    pub(super) seen_at: Option<Timestamp>,
    /// … and in an outbox these: see [`mark_of`].
    pub(super) mark: String,
}

impl Deed {
    /// What can be done to a group; see [`is_exact`](Self::is_exact).
    pub(super) fn of_group(group: &Group) -> Self {
        let (kind, code) = (known(&group.kind), known(&group.code));
        match &group.place {
            Place::Outbox { source, pipe } => {
                let selection = Selection {
                    kind: carried(kind),
                    code: carried(code),
                    pipe: pipe.clone(),
                    state: Some(Stand::Dead),
                    ..Selection::default()
                };
                Self::of_outbox(source, &selection.to_string())
            }
            Place::Letters { source, .. } => Self::of_letters(source, kind, code, None),
            Place::Errors { sink } => Self::of_errors(sink, kind, code, None),
        }
    }

    /// Whether a filter can tell this group from all others.
    pub(super) fn is_exact(group: &Group) -> bool {
        !known(&group.kind).is_empty() && !known(&group.code).is_empty()
    }

    /// The filter by which a list shows what a repair of an outbox means: without a state, the dead.
    pub(super) fn meant(&self) -> Result<String, Trouble> {
        let mut selection = Selection::parse(&self.filter)?;
        if selection.id.is_none() {
            selection.state = selection.state.or(Some(Stand::Dead));
        }
        Ok(selection.to_string())
    }

    /// Whether it means no more than was shown; in an outbox, where no time tells what came after the look, just these.
    pub(super) fn covers(&self, matched: u64, mark: &str) -> bool {
        matched <= self.shown.unwrap_or(0) && (self.place != "outbox" || self.mark == mark)
    }

    /// What came after the look is not meant, where that can be told: then this is how old the others are by now.
    pub(super) fn older_than(&self, now: Timestamp) -> Option<Duration> {
        let seen_at = self.seen_at.filter(|_| self.id.is_none())?;
        Some(Duration::try_from(now.duration_since(seen_at)).unwrap_or_default())
    }

    fn of(place: &str, name: &str) -> Self {
        Self {
            place: place.to_owned(),
            name: name.to_owned(),
            back: "/failures".to_owned(),
            ..Self::default()
        }
    }

    /// To messages of an outbox.
    pub(super) fn of_outbox(source: &str, filter: &str) -> Self {
        Self { filter: filter.to_owned(), ..Self::of("outbox", source) }
    }

    /// To dead letters.
    pub(super) fn of_letters(source: &str, kind: &str, code: &str, id: Option<&str>) -> Self {
        let (kind, code, id) = (kind.to_owned(), code.to_owned(), id.map(str::to_owned));
        Self { kind, code, id, ..Self::of("letters", source) }
    }

    /// To errors of a table.
    pub(super) fn of_errors(sink: &str, kind: &str, code: &str, id: Option<&str>) -> Self {
        Self { place: "errors".to_owned(), ..Self::of_letters(sink, kind, code, id) }
    }

    /// What it says, as fields of a form.
    pub(super) fn fields(&self) -> Vec<(&'static str, &str)> {
        let all: [(&'static str, &str); 6] = [
            ("place", &self.place),
            ("name", &self.name),
            ("filter", &self.filter),
            ("kind", &self.kind),
            ("code", &self.code),
            ("back", &self.back),
        ];
        let id = self.id.as_deref().map(|id| ("id", id));
        all.into_iter().filter(|(_, value)| !value.is_empty()).chain(id).collect()
    }

    /// The verbs that its place knows, each with its word for a button.
    pub(super) fn verbs(&self) -> &'static [(&'static str, &'static str)] {
        match self.place.as_str() {
            "outbox" => &[("retry", "Retry"), ("skip", "Skip")],
            "letters" => &[("retry", "Retry"), ("discard", "Discard")],
            _ => &[("retry", "Retry"), ("resolve", "Resolve")],
        }
    }

    /// Whether it says what is to be done and to what. A form about one that does not name it would mean all.
    pub(super) fn is_known(&self) -> bool {
        let is_place = ["outbox", "letters", "errors"].contains(&self.place.as_str());
        let says_which = [&self.kind, &self.code].iter().all(|text| *text != UNKNOWN)
            && self.id.as_ref().is_none_or(|id| !id.is_empty());
        is_place && says_which && self.verbs().iter().any(|(verb, _)| *verb == self.verb)
    }

    /// What will happen.
    pub(super) fn sentence(&self) -> &'static str {
        match (self.place.as_str(), self.verb.as_str()) {
            ("outbox", "retry") => {
                "Each is tried again at once, with all its attempts. Later messages of its key still wait for it."
            }
            ("outbox", _) => {
                "Each is let go: it does not come again on its pipe, and its key goes on. This cannot be undone."
            }
            ("letters", "retry") => {
                "Each goes back to where it died and is handled again, with all its attempts."
            }
            ("letters", _) => "Each is removed for good. This cannot be undone.",
            (_, "retry") => {
                "Each is sent back to where it failed, as it stands in the table, and is marked as returned."
            }
            _ => "Each is closed: nothing is left to do. It stays in the table with your name.",
        }
    }

    /// Whether it can be undone.
    pub(super) fn is_final(&self) -> bool {
        matches!(self.verb.as_str(), "skip" | "discard")
    }

    pub(super) fn command(&self) -> String {
        let mut words: Vec<String> = match self.place.as_str() {
            "outbox" => vec!["outboxd".into(), self.verb.clone(), "--source".into(), shell(&self.name)],
            "letters" => vec!["outboxd dlq".into(), self.verb.clone(), "--source".into(), shell(&self.name)],
            _ => vec!["outboxd errors".into(), self.verb.clone(), "--sink".into(), shell(&self.name)],
        };
        for (flag, value) in [("--filter", &self.filter), ("--type", &self.kind), ("--code", &self.code)] {
            if !value.is_empty() {
                words.extend([flag.to_owned(), shell(value)]);
            }
        }
        words.extend(self.id.as_deref().map(shell));
        words.join(" ")
    }
}

/// Tells messages on their pipes from others, in whatever order they are listed.
pub(super) fn mark_of(listed: &[Listed]) -> String {
    let mut all: Vec<_> = listed.iter().map(|one| (&one.source, &one.pipe, &one.id)).collect();
    all.sort_unstable();
    mark(&all)
}

/// A type or cause, or nothing if nobody knows it.
pub(super) fn known(text: &str) -> &str {
    if text == UNKNOWN { "" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(kind: &str, code: &str) -> Group {
        Group {
            place: Place::Letters { source: "jobs".to_owned(), place: "jobs.dead".to_owned() },
            code: code.to_owned(),
            kind: kind.to_owned(),
            detail: String::new(),
            count: 1,
            at_least: false,
            first_seen: Timestamp::UNIX_EPOCH,
            last_seen: Timestamp::UNIX_EPOCH,
            ids: Vec::new(),
        }
    }

    #[test]
    fn what_no_filter_can_tell_apart_is_not_done_to_many() {
        assert!(Deed::is_exact(&group("order", "HTTP_500")));
        for (kind, code) in [("order", "-"), ("order", ""), ("", "HTTP_500"), ("", "-")] {
            assert!(!Deed::is_exact(&group(kind, code)), "{kind:?} {code:?}");
        }
        let deed = |kind: &str, code: &str, id: Option<&str>| Deed {
            verb: "discard".to_owned(),
            ..Deed::of_letters("jobs", kind, code, id)
        };
        assert!(deed("order", "HTTP_500", None).is_known() && deed("", "", Some(" 7")).is_known());
        assert!(!deed("order", "-", None).is_known() && !deed("-", "HTTP_500", None).is_known());
        assert!(!deed("", "", Some("")).is_known(), "all letters are not one letter");
        assert!(deed("", "", Some("")).fields().contains(&("id", "")), "an empty id is not lost on its way");
    }

    #[test]
    fn a_deed_is_one_that_its_place_knows() {
        let deed = |place: &str, verb: &str| Deed { verb: verb.to_owned(), ..Deed::of(place, "x") };
        assert!(deed("outbox", "skip").is_known() && deed("letters", "discard").is_known());
        assert!(deed("errors", "resolve").is_known() && deed("errors", "retry").is_known());
        for (place, verb) in
            [("outbox", "discard"), ("letters", "resolve"), ("moon", "retry"), ("outbox", "")]
        {
            assert!(!deed(place, verb).is_known(), "{place} {verb}");
        }
    }

    #[test]
    fn the_sample_is_of_what_is_meant() {
        let meant = |filter: &str| Deed::of_outbox("orders", filter).meant().expect(filter);
        assert_eq!(
            (meant("type:order"), meant("")),
            ("type:order state:dead".to_owned(), "state:dead".to_owned())
        );
        assert_eq!((meant("state:waiting"), meant("id:7")), ("state:waiting".to_owned(), "id:7".to_owned()));
        assert!(Deed::of_outbox("orders", "moon:full").meant().is_err());
    }

    #[test]
    fn a_deed_means_no_more_than_was_shown() {
        let deed = |shown| Deed { shown, ..Deed::of_letters("jobs", "order", "HTTP_500", None) };
        assert!(deed(Some(3)).covers(3, "") && deed(Some(3)).covers(0, "") && !deed(Some(3)).covers(4, ""));
        assert!(!deed(None).covers(1, ""), "who was shown nothing has agreed to nothing");
        let seen_at = Some(Timestamp::UNIX_EPOCH);
        let later = Timestamp::from_second(30).expect("a time");
        let all = Deed { seen_at, ..Deed::of_letters("jobs", "order", "HTTP_500", None) };
        assert_eq!(all.older_than(later), Some(Duration::from_secs(30)));
        let one = Deed { seen_at, ..Deed::of_letters("jobs", "", "", Some("7")) };
        assert_eq!(one.older_than(later), None, "who names one means it, however young it is");
    }

    #[test]
    fn as_many_others_in_an_outbox_are_not_what_was_shown() {
        let listed = |ids: &[&str]| -> Vec<Listed> {
            let one = |id: &&str| Listed {
                source: "orders".to_owned(),
                position: 1,
                id: (*id).to_owned(),
                kind: "order".to_owned(),
                key: None,
                occurred_at: Timestamp::UNIX_EPOCH,
                pipe: Some("relay".to_owned()),
                state: "dead",
                attempts: 1,
                due: None,
                cause: None,
            };
            ids.iter().map(one).collect()
        };
        let mut deed = Deed { shown: Some(3), ..Deed::of_outbox("orders", "state:dead") };
        assert!(!deed.covers(3, &mark_of(&listed(&["a", "b", "c"]))), "nothing says what was shown");
        deed.mark = mark_of(&listed(&["a", "b", "c"]));
        assert!(deed.covers(3, &mark_of(&listed(&["c", "a", "b"]))), "the order does not matter");
        assert!(!deed.covers(3, &mark_of(&listed(&["a", "b", "d"]))));
        let mut elsewhere = listed(&["a", "b", "c"]);
        elsewhere[0].pipe = Some("archive".to_owned());
        assert!(!deed.covers(3, &mark_of(&elsewhere)), "on another pipe it is another thing to skip");
    }

    #[test]
    fn a_deed_is_also_a_command() {
        let deed = Deed { verb: "skip".to_owned(), ..Deed::of_outbox("orders", "type:order.* state:dead") };
        assert_eq!(deed.command(), "outboxd skip --source orders --filter 'type:order.* state:dead'");
        let deed =
            Deed { verb: "resolve".to_owned(), ..Deed::of_errors("errors", "order", "HTTP_500", None) };
        assert_eq!(deed.command(), "outboxd errors resolve --sink errors --type order --code HTTP_500");
    }
}

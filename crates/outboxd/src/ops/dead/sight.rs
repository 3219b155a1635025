//! What was found at the sources that are meant, and what is done about it. Who says yes in between does so to just
//! these letters.

use std::sync::atomic::{AtomicU64, Ordering};

use outbox::MessageId;
use outbox::letters::{Act, Pace};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::place::places;
use super::{Dead, Place, Seen, Wanted, WholeLetter};
use crate::ops::told::{Preview, previews};
use crate::ops::{Book, Office, Tell};
use crate::trouble::Trouble;

/// What was found.
pub struct Sight<'o> {
    places: Vec<(Place<'o>, Seen)>,
    wanted: Wanted,
    /// What those said that could not be looked at.
    pub unseen: Vec<Trouble>,
}

/// What became of a deed.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = DeadLettersActed)]
pub struct Acted {
    /// What was to be done.
    pub verb: &'static str,
    /// How many were meant.
    pub matched: u64,
    /// How many were dealt with; none if it was only looked.
    pub changed: u64,
    /// The ids that were asked for and are not there.
    pub missing: Vec<String>,
    /// The ids that were there, and had gone when it was their turn: somebody else has dealt with them.
    pub gone: Vec<String>,
    /// The ids that were meant.
    #[schema(value_type = Vec<String>)]
    pub ids: Vec<MessageId>,
    /// Of which causes they are.
    pub causes: Vec<Preview>,
    /// The sources that have more, which was not looked at.
    pub more: Vec<String>,
}

impl<'o> Sight<'o> {
    /// Looks for what is meant.
    pub async fn look(office: &'o Office, wanted: Wanted) -> Result<Self, Trouble> {
        Self::within(office, wanted, true).await
    }

    /// The same before a deed, which may take its time.
    pub async fn look_long(office: &'o Office, wanted: Wanted) -> Result<Self, Trouble> {
        Self::within(office, wanted, false).await
    }

    async fn within(office: &'o Office, wanted: Wanted, hurry: bool) -> Result<Self, Trouble> {
        wanted.check()?;
        let (places, unseen) = places(office, &wanted, hurry).await?;
        Ok(Self { places, wanted, unseen })
    }

    /// Nothing is done by halves: whoever wants to go on without a source names the others.
    pub fn whole_or_nothing(mut self) -> Result<Self, Trouble> {
        if self.unseen.is_empty() { Ok(self) } else { Err(self.unseen.swap_remove(0)) }
    }

    /// The letters, oldest first within their source.
    pub fn found(&self) -> impl Iterator<Item = &Dead> + Clone {
        self.places.iter().flat_map(|(_, seen)| &seen.dead)
    }

    /// Each letter with its place, which completes it.
    pub fn letters(&self) -> impl Iterator<Item = (&Place<'o>, &Dead)> {
        self.places.iter().flat_map(|(place, seen)| seen.dead.iter().map(move |dead| (place, dead)))
    }

    /// How many letters.
    pub fn matched(&self) -> u64 {
        self.found().count() as u64
    }

    /// The sources of which not all was looked at.
    pub fn more(&self) -> Vec<String> {
        let cut = self.places.iter().filter(|(_, seen)| seen.more);
        cut.map(|(place, _)| place.source().name.clone()).collect()
    }

    /// What is meant, by type and cause.
    pub fn causes(&self) -> Vec<Preview> {
        previews(self.found().map(|dead| {
            let code = dead.cause.as_ref().map_or("-", |cause| cause.code.as_ref());
            (dead.origin.as_str(), dead.message.kind.as_str(), code)
        }))
    }

    /// Puts headers and payloads in, where they are not there yet.
    pub async fn complete(&mut self) -> Result<(), Trouble> {
        for (place, seen) in &mut self.places {
            for dead in &mut seen.dead {
                place.complete(dead).await?;
            }
        }
        Ok(())
    }

    /// The letters with all that is known of them, once they are complete.
    pub fn whole(&self, with_payload: bool) -> Vec<WholeLetter> {
        let at = |(place, seen): &(Place<'_>, Seen)| {
            let name = place.name();
            seen.dead.iter().map(|dead| dead.whole(&name, with_payload)).collect::<Vec<_>>()
        };
        self.places.iter().flat_map(at).collect()
    }

    /// What is told of a deed that was not done.
    pub fn only_looked(&self, act: Act) -> Acted {
        Acted {
            verb: if act == Act::Return { "dlq retry" } else { "dlq discard" },
            matched: self.matched(),
            changed: 0,
            missing: self.wanted.missing(self.found()),
            gone: Vec::new(),
            ids: self.found().map(|dead| dead.message.id.clone()).collect(),
            causes: self.causes(),
            more: self.more(),
        }
    }

    /// Returns or discards what was found, place by place, written down before and after.
    pub async fn act(
        &self,
        office: &Office,
        act: Act,
        by: &str,
        pace: Option<Pace>,
        tell: Tell<'_>,
    ) -> Result<Acted, Trouble> {
        let book = office.book(by).await?;
        let mut acted = self.only_looked(act);
        for (place, seen) in self.places.iter().filter(|(_, seen)| !seen.dead.is_empty()) {
            let done = AtomicU64::new(0);
            let before = acted.changed;
            let tell = |count: u64| {
                done.store(count, Ordering::Relaxed);
                tell(before + count);
            };
            let at = self.act_at((place, seen), act, &book, pace, (&tell, &done)).await;
            let at =
                at.map_err(|trouble| trouble.after(before + done.load(Ordering::Relaxed), acted.matched))?;
            acted.changed += at.acted;
            acted.gone.extend(at.missing.iter().map(ToString::to_string));
        }
        Ok(acted)
    }

    async fn act_at(
        &self,
        (place, seen): (&Place<'o>, &Seen),
        act: Act,
        book: &Book,
        pace: Option<Pace>,
        (tell, done): (Tell<'_>, &AtomicU64),
    ) -> Result<outbox::letters::Acted, Trouble> {
        let action = if act == Act::Return { "dlq.retry" } else { "dlq.discard" };
        let ids: Vec<MessageId> = seen.dead.iter().map(|dead| dead.message.id.clone()).collect();
        let page = book.begin(action, &place.name(), &ids, self.wanted.to_json()).await?;
        match place.act(&seen.dead, act, book.who(), pace, tell).await {
            Ok(acted) => {
                page.done(json!({ "changed": acted.acted, "missing": acted.missing })).await?;
                Ok(acted)
            }
            Err(trouble) => {
                page.failed(done.load(Ordering::Relaxed), &trouble).await;
                Err(trouble)
            }
        }
    }
}

//! Where dead letters lie: at a broker, or set aside in an outbox.

use std::sync::Arc;

use futures_util::future::join_all;
use jiff::Timestamp;
use outbox::admin::{Filter, Repair, Stand};
use outbox::letters::{Act, Acted, DeadLetters, Deed, Looked, Pace};
use outbox::{ErrorKind, MessageId};
use tokio::time::{Instant, sleep_until};

use super::{Dead, Wanted};
use crate::backends;
use crate::ops::{Office, Opened, choose};
use crate::plan::SourcePlan;
use crate::trouble::Trouble;

/// An outbox is asked for so many at a time.
const PAGE: u32 = 1_000;

/// So many letters of a broker are looked at for somebody who sits before a page: each is taken and put back.
pub const GLANCE: usize = 500;

/// Something that keeps dead letters.
pub enum Place<'p> {
    /// A queue or topic at a broker.
    Letters(&'p SourcePlan, Arc<dyn DeadLetters>),
    /// An outbox, which sets aside what is dead on a pipe.
    Outbox(Opened<'p>),
}

/// What was seen at a place.
pub struct Seen {
    /// What is meant, oldest first.
    pub dead: Vec<Dead>,
    /// There are more that were not looked at.
    pub more: bool,
}

/// Looks at the sources that are meant, all at once, in a `hurry` if somebody waits for the answer: what is there, and what those said that could not be looked at.
pub async fn places<'o>(
    office: &'o Office,
    wanted: &Wanted,
    hurry: bool,
) -> Result<(Vec<(Place<'o>, Seen)>, Vec<Trouble>), Trouble> {
    let sources = choose(&office.plan, wanted.picked.source.as_deref())?;
    let looks = sources.into_iter().map(|source| {
        let look = async {
            let place = Place::open(office, source).await?;
            let seen = place.look(office, wanted, hurry).await?;
            Ok((place, seen))
        };
        let doing = format!("cannot look at the dead letters of '{}'", source.name);
        async move { if hurry { office.look(&doing, look).await } else { look.await } }
    });
    let (mut places, mut troubles) = (Vec::new(), Vec::new());
    for looked in join_all(looks).await {
        match looked {
            Ok(looked) => places.push(looked),
            Err(trouble) => troubles.push(trouble),
        }
    }
    Ok((places, troubles))
}

impl<'p> Place<'p> {
    /// Where the dead letters of a source lie.
    pub async fn open(office: &Office, source: &'p SourcePlan) -> Result<Self, Trouble> {
        match backends::letters(source) {
            Some(Ok(letters)) => Ok(Self::Letters(source, letters.into())),
            Some(Err(error)) => Err(Trouble::at_source("cannot read the dead letters", source, &error)),
            None => office.open(source).await.map(Self::Outbox),
        }
    }

    /// What the plan says about its source.
    pub fn source(&self) -> &'p SourcePlan {
        match self {
            Self::Letters(source, _) => source,
            Self::Outbox(opened) => opened.source,
        }
    }

    /// Its dead letters, for people.
    pub fn name(&self) -> String {
        match self {
            Self::Letters(_, letters) => letters.place().to_owned(),
            Self::Outbox(opened) => format!("source '{}'", opened.source.name),
        }
    }

    fn trouble(&self, doing: &str, error: &outbox::Error) -> Trouble {
        Trouble::at_source(doing, self.source(), error)
    }

    /// What is meant here, oldest first; in a `hurry` not all of what lies at a broker is looked at.
    pub async fn look(&self, office: &Office, wanted: &Wanted, hurry: bool) -> Result<Seen, Trouble> {
        let most = usize::try_from(wanted.picked.most()).unwrap_or(usize::MAX);
        let glances = (hurry && office.is_hurried()).then_some(GLANCE);
        let seen = match self {
            Self::Letters(source, letters) => match look_at(office, letters, wanted.depth(glances)).await {
                // Nothing has died yet where the queue is still to be made.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    Ok(Seen { dead: Vec::new(), more: false })
                }
                Err(error) => Err(error),
                Ok(looked) => {
                    let dead = looked.letters.into_iter().map(|letter| Dead::letter(&source.name, letter));
                    Ok(Seen { dead: dead.collect(), more: looked.more })
                }
            },
            Self::Outbox(opened) => set_aside(opened, wanted, most).await,
        };
        let mut seen = seen.map_err(|error| self.trouble("cannot look at the dead letters", &error))?;
        let now = Timestamp::now();
        seen.dead.retain(|dead| wanted.takes(dead, now));
        Ok(seen)
    }

    /// Puts headers and payload in, where they are not there yet.
    pub async fn complete(&self, dead: &mut Dead) -> Result<(), Trouble> {
        let Self::Outbox(opened) = self else { return Ok(()) };
        let story = opened.log.admin().show(&dead.message.id).await;
        if let Some(story) = story.map_err(|error| self.trouble("cannot show the message", &error))? {
            dead.message = story.message;
        }
        Ok(())
    }

    /// Returns or discards these, in their order.
    pub async fn act(
        &self,
        dead: &[Dead],
        act: Act,
        by: &str,
        pace: Option<Pace>,
        tell: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<Acted, Trouble> {
        let acted = match self {
            Self::Letters(_, letters) => {
                let ids: Vec<MessageId> = dead.iter().map(|dead| dead.message.id.clone()).collect();
                letters.act(&Deed { ids: &ids, act, by, pace, tell }).await
            }
            Self::Outbox(opened) => repair(opened, dead, act, pace, tell).await,
        };
        let doing = if act == Act::Return { "cannot retry" } else { "cannot discard" };
        acted.map_err(|error| self.trouble(doing, &error))
    }
}

/// Looks at a broker, to the end.
async fn look_at(office: &Office, letters: &Arc<dyn DeadLetters>, most: usize) -> outbox::Result<Looked> {
    let theirs = letters.clone();
    office.looks.to_the_end(letters.place(), async move { theirs.look(most).await }).await
}

async fn set_aside(opened: &Opened<'_>, wanted: &Wanted, most: usize) -> outbox::Result<Seen> {
    let picked = &wanted.picked;
    let mut filter = Filter {
        stand: Some(Stand::Dead),
        kind: picked.kind.clone(),
        key: picked.key.clone(),
        code: picked.code.clone(),
        limit: PAGE,
        ..Filter::default()
    };
    let dead_of = |entry| Dead::entry(&opened.source.name, entry);
    // What is asked for by name is found by its name, however many lie before it.
    let mut named = Vec::new();
    for id in wanted.ids() {
        filter.id = Some(id.into());
        named.extend(opened.log.admin().list(&filter).await?);
    }
    if filter.id.is_some() {
        // A key keeps its order, in whichever order somebody named them.
        named.sort_by_key(|entry| entry.position);
        return Ok(Seen { dead: named.into_iter().map(dead_of).collect(), more: false });
    }
    let mut dead = Vec::new();
    loop {
        let page = opened.log.admin().list(&filter).await?;
        let Some(last) = page.last().map(|entry| entry.position) else {
            return Ok(Seen { dead, more: false });
        };
        dead.extend(page.into_iter().map(dead_of));
        if dead.len() > most {
            dead.truncate(most);
            return Ok(Seen { dead, more: true });
        }
        filter.after = Some(last);
    }
}

async fn repair(
    opened: &Opened<'_>,
    dead: &[Dead],
    act: Act,
    pace: Option<Pace>,
    tell: &(dyn Fn(u64) + Send + Sync),
) -> outbox::Result<Acted> {
    let repair = if act == Act::Return { Repair::Retry } else { Repair::Skip };
    let mut acted = Acted::default();
    let mut next = Instant::now();
    for one in dead {
        sleep_until(next).await;
        next += pace.map(Pace::each).unwrap_or_default();
        let filter = Filter {
            id: Some(one.message.id.clone()),
            cursor: one.pipe.clone(),
            stand: Some(Stand::Dead),
            ..Filter::default()
        };
        match opened.log.admin().repair(&filter, repair, false).await? {
            0 => acted.missing.push(one.message.id.clone()),
            count => acted.acted += count,
        }
        tell(acted.acted);
    }
    Ok(acted)
}

//! What a person can see and do: the contract of an [`Admin`].

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;

use crate::error::Result;
use crate::message::{Message, MessageId};
use crate::sink::Cause;

/// Sees and repairs an outbox: behind the command line, and later behind the dashboard.
///
/// - **M1** `status` tells of every cursor: who owns it, how far behind it is, what is set aside.
/// - **M2** `list` and `show` change nothing.
/// - **M3** A retried message is due at once, with its attempts at zero; the later ones of its key still wait
///   for it.
/// - **M4** A skipped message does not come again on that cursor, and its key goes on.
/// - **M5** A replay repeats everything from its point on, in order, and loses nothing that was pending.
/// - **M6** A purge removes only what every cursor has done and nobody has set aside, in bounded steps.
/// - **M7** `page` after `page` finds what `list` finds, in either direction, and looks at no more than it was told.
#[async_trait]
pub trait Admin: Send + Sync {
    /// Every cursor as it stands.
    async fn status(&self) -> Result<Vec<CursorStatus>>;

    /// Messages that match, oldest first unless the filter says otherwise, after `filter.after`.
    async fn list(&self, filter: &Filter) -> Result<Vec<Entry>>;

    /// The same for somebody who waits in front of a page: at most `look` messages of the log are looked at, whether
    /// they match or not, and the page says where to go on. A table of somebody else's is not bounded so.
    async fn page(&self, filter: &Filter, look: Option<u32>) -> Result<Page> {
        let _ = look;
        let more = Filter {
            limit: u32::try_from(filter.page()).unwrap_or(u32::MAX).saturating_add(1),
            ..filter.clone()
        };
        Ok(filter.page_of(self.list(&more).await?, None))
    }

    /// One message with what became of it on every cursor.
    async fn show(&self, id: &MessageId) -> Result<Option<Story>>;

    /// Retries or skips what matches and is set aside; tells how many. With `dry_run` nothing changes, and counting
    /// stops at [`PREVIEWED_AT_MOST`]. What is very many may be done in steps: what was done before a failure stays done.
    async fn repair(&self, filter: &Filter, repair: Repair, dry_run: bool) -> Result<u64>;

    /// Moves a cursor back; tells how many messages will come again. With `dry_run` nothing changes.
    async fn replay(&self, cursor: &str, from: &ReplayFrom, dry_run: bool) -> Result<u64>;

    /// Removes one step (at most `step`) of what is done everywhere and older than `age`; tells how many.
    async fn purge(&self, age: Duration, step: u32, dry_run: bool) -> Result<u64>;

    /// What went on lately; none if the outbox does not write down when a message was done. May be slow over a
    /// large table, so it is told only when asked for.
    async fn activity(&self) -> Result<Option<Activity>> {
        Ok(None)
    }
}

/// From so many attempts on a message counts as one with trouble.
pub const TRIED_OFTEN: u32 = 3;

/// Counting stops here: a status must stay cheap over any backlog.
pub const COUNTED_AT_MOST: u64 = 10_000;

/// The preview of a repair stops counting here: who has a million to retry must not wait for their number first.
pub const PREVIEWED_AT_MOST: u64 = 100_000;

/// How one cursor stands. A cursor with several lanes has one of these per lane.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CursorStatus {
    /// The name, which is that of its pipe.
    pub cursor: String,
    /// The lane, from 0.
    pub lane: u32,
    /// How many lanes the cursor has.
    pub lanes: u32,
    /// Who holds the lease, if anybody.
    pub owner: Option<String>,
    /// When the lease ends, on the database's clock; in the past when the owner is gone.
    pub lease_until: Option<Timestamp>,
    /// Committed and not yet done, without what is set aside; [`COUNTED_AT_MOST`] means that or more.
    pub pending: u64,
    /// Age of the oldest message that is not done and not dead.
    pub lag_seconds: Option<f64>,
    /// Set aside and to be tried again; this and the next two are counted like those that are pending.
    pub waiting: u64,
    /// Set aside because an earlier one of the key is not done.
    pub behind: u64,
    /// Set aside until a person decides.
    pub dead: u64,
    /// Done since the cursor exists; none if nobody counts.
    pub delivered: Option<u64>,
}

/// What went on in an outbox lately: which messages have trouble, and how fast the others go.
///
/// With the pending count of [`CursorStatus`] it answers what a team asks its table every day: how many wait,
/// how many of them have failed again and again, what was done in the last hour, and how much per minute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Activity {
    /// Not done, not given up, and tried [`TRIED_OFTEN`] times or more.
    pub tried_often: u64,
    /// Done in the last hour.
    pub done_last_hour: u64,
    /// Begin of a minute and how many were done in it: the last hour, newest first, without empty minutes.
    pub by_minute: Vec<(Timestamp, u64)>,
}

/// Where a message stands on a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stand {
    /// Not read yet.
    Pending,
    /// Set aside, to be tried again.
    Waiting,
    /// Set aside because an earlier one of its key is not done.
    Behind,
    /// Set aside until a person decides.
    Dead,
    /// Done.
    Done,
}

impl Stand {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Waiting => "waiting",
            Self::Behind => "behind",
            Self::Dead => "dead",
            Self::Done => "done",
        }
    }
}

/// Which messages are meant; what is not set matches everything.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// On this cursor only.
    pub cursor: Option<String>,
    /// In this state only.
    pub stand: Option<Stand>,
    /// This message.
    pub id: Option<MessageId>,
    /// Of this type; a trailing `*` matches any ending.
    pub kind: Option<String>,
    /// Of this key.
    pub key: Option<String>,
    /// With this cause code.
    pub code: Option<String>,
    /// With this header and value (a saga id, a correlation id).
    pub header: Option<(String, String)>,
    /// Only after this position, in the direction of the list; the `position` of the last entry of a page.
    pub after: Option<u64>,
    /// From the newest to the oldest.
    pub newest_first: bool,
    /// A list has at most so many entries; 0 means 100. A repair takes all that matches.
    pub limit: u32,
}

impl Filter {
    /// How many entries a page has.
    pub fn page(&self) -> usize {
        if self.limit == 0 { 100 } else { usize::try_from(self.limit).unwrap_or(usize::MAX) }
    }

    /// Cuts entries, of which there is one more than a page if there are more pages, to a page. The next one
    /// begins after a position, so no message is cut between two of its cursors.
    pub fn cut(&self, mut entries: Vec<Entry>) -> Vec<Entry> {
        let Some(next) = entries.get(self.page()).map(|entry| entry.position) else { return entries };
        entries.truncate(self.page());
        if entries.first().is_some_and(|entry| entry.position != next) {
            entries.retain(|entry| entry.position != next);
        }
        entries
    }

    /// A page of entries, of which there is one more than a page if there are more. `cut_at` is where the look ended, if it
    /// did not see the end of the log.
    pub(crate) fn page_of(&self, entries: Vec<Entry>, cut_at: Option<u64>) -> Page {
        let found = entries.len();
        let entries = self.cut(entries);
        if entries.len() < found {
            return Page { next: entries.last().map(|entry| entry.position), is_cut: false, entries };
        }
        Page { next: cut_at, is_cut: cut_at.is_some(), entries }
    }
}

/// A part of a list.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// What matches.
    pub entries: Vec<Entry>,
    /// Where the next page begins: for [`Filter::after`]. None if this was the last.
    pub next: Option<u64>,
    /// Enough was looked at before the page was full: there may be more that matches, or nothing.
    pub is_cut: bool,
}

/// One message on one cursor.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// Its place in the log.
    pub position: u64,
    /// Its id.
    pub id: MessageId,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its key.
    pub key: Option<String>,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// The cursor that this entry is about; none when the log has no cursor yet.
    pub cursor: Option<String>,
    /// Where it stands there.
    pub stand: Stand,
    /// Attempts spent.
    pub attempts: u32,
    /// When it is due again.
    pub due: Option<Timestamp>,
    /// Why it is set aside.
    pub cause: Option<Cause>,
}

/// A message with what became of it everywhere.
#[derive(Debug, Clone)]
pub struct Story {
    /// The message.
    pub message: Message,
    /// One entry per cursor.
    pub entries: Vec<Entry>,
}

/// What to do with messages that are set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// Try again at once, with all attempts.
    Retry,
    /// Let it go: it does not come again on that cursor.
    Skip,
}

/// Where a replay begins.
#[derive(Debug, Clone)]
pub enum ReplayFrom {
    /// The first message of the log.
    Start,
    /// Messages that occurred at this time or later.
    Time(Timestamp),
    /// This message, and what was written after it.
    Message(MessageId),
}

//! Carries out what was decided about messages that are handed out: moves, then commits, then notes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::timeout;

use super::error::{Whose, into_error};
use super::moves::{Move, Step, plan_early};
use super::publisher::{Failed, Parcel};
use super::reader::Reader;
use super::shelf::Now;
use super::source::Group;
use super::stock::{End, Standing};
use super::token::Token;
use crate::error::{Error, ErrorKind, Result};
use crate::failpoint;

/// So many messages are sent round again at a time.
const ROUND: usize = 500;

impl Group {
    /// Messages whose wait is longer than the delay of their retry topic go to another, or to the same once more.
    pub(super) async fn go_round(&self, reader: &Reader) -> Result<()> {
        let (now, life) = (Now::get(), self.life.load(Ordering::Relaxed));
        let mut round = self.round.lock().await;
        round.take_if(|token| token.life != life || !reader.shared.stock().is_open(token.number));
        if round.is_none() {
            let handed = reader.shared.stock().take_early(ROUND, now);
            *round = handed.map(|handed| Token::new(life, handed.number, handed.items));
        }
        let Some(token) = &*round else { return Ok(()) };
        let steps = plan_early(&self.catalog, &token.items, now);
        let _one = self.settling.lock().await;
        let carried = self.carry_out(reader, token, &steps, now).await;
        match carried {
            // What has been moved already is not moved again by the next claim.
            Err(error) if error.is_temporary() => return Err(error),
            // Some are somebody else's; nothing of the caller's is lost.
            Err(error) if error.kind() == ErrorKind::Lost => {
                reader.shared.stock().take_back(token.number, now)
            }
            other => other?,
        }
        *round = None;
        Ok(())
    }

    /// Waits until it is known whose the partitions are.
    async fn until_ours(&self, reader: &Reader, token: &Token) -> Result<()> {
        let mut changes = reader.shared.changes.subscribe();
        let settled = async {
            loop {
                match reader.shared.stock().standing(&token.items) {
                    Standing::Unknown => {}
                    other => return other,
                }
                if changes.changed().await.is_err() {
                    return Standing::Lost;
                }
            }
        };
        match timeout(self.config.timeout, settled).await {
            Ok(Standing::Ours) => Ok(()),
            Ok(_) => Err(self.lost()),
            Err(_) => {
                let what =
                    format!("group '{}' at {}: a rebalance is going on", self.config.group, self.place);
                Err(Error::new(ErrorKind::Busy, what))
            }
        }
    }

    /// All or nothing: what has been moved is not moved again if this has to be repeated, and an offset advances only
    /// after that.
    pub(super) async fn carry_out(
        &self,
        reader: &Reader,
        token: &Token,
        steps: &[Step],
        now: Now,
    ) -> Result<()> {
        self.until_ours(reader, token).await?;
        register(reader, token, steps, now);
        self.move_away(token, steps).await?;
        failpoint::pass("moved");
        // Moving took its time.
        self.until_ours(reader, token).await?;
        let ends = ends(token, steps, now);
        let commits = reader.shared.stock().commits(&token.items, &ends);
        failpoint::pass("acknowledging");
        if !commits.is_empty() {
            failpoint::pass("settle_before_commit");
            reader.commit(&commits).await.map_err(|error| self.failed("committing", error))?;
            failpoint::pass("settle_after_commit");
        }
        reader.shared.stock().settle(token.number, &token.items, &ends, &commits, Now::get());
        token.progress().settled = true;
        Ok(())
    }

    /// Writes what goes to other topics. What a topic does not take for its own fault is kept here, and told.
    async fn move_away(&self, token: &Token, steps: &[Step]) -> Result<()> {
        let open: Vec<(usize, &Move)> = {
            let progress = token.progress();
            let is_open = |at: &usize| progress.moved[*at].is_none();
            let moves = steps.iter().enumerate().filter_map(|(at, step)| match step {
                Step::Move(to) => Some((at, to)),
                _ => None,
            });
            moves.filter(|(at, _)| is_open(at)).collect()
        };
        if open.is_empty() {
            return Ok(());
        }
        self.know_partitions(token, &open).await?;
        let parcel = |at: usize| -> Option<Parcel<'_>> {
            let (item, to) = (&token.items[open[at].0], open[at].1);
            Some(to.parcel(item, self.partition(to, item.entry.place.partition)))
        };
        let parcels = (0..open.len()).filter_map(parcel).collect();
        let fates = self.publisher.publish(parcels, parcel).await;
        failpoint::pass("settle_set_aside");
        let mut failed = None;
        for ((at, to), fate) in open.iter().zip(fates) {
            match fate {
                Ok(()) => token.progress().moved[*at] = Some(true),
                Err(Failed { fault, cause }) if matches!(fault.whose, Whose::Message | Whose::Neighbours) => {
                    let id = &token.items[*at].entry.message.id;
                    tracing::error!(%id, topic = to.topic, %cause, "the topic does not take the message; it is kept here");
                    token.progress().moved[*at] = Some(false);
                }
                Err(other) => failed = Some(other),
            }
        }
        match failed {
            None => Ok(()),
            Some(failed) if failed.fault.whose == Whose::Topic => {
                // Either that tells what is wrong, or it was mended.
                self.check().await?;
                Err(Error::new(ErrorKind::Busy, failed.cause.detail))
            }
            Some(failed) => Err(into_error(&failed.cause)),
        }
    }

    /// Asks for the topics again if one has fewer partitions than it needs: the topic that is read may have grown.
    async fn know_partitions(&self, token: &Token, moves: &[(usize, &Move)]) -> Result<()> {
        let is_short = |(at, to): &(usize, &Move)| {
            let count = self.counts().get(&to.topic).copied().unwrap_or(0);
            to.wait.is_some() && count <= token.items[*at].entry.place.partition
        };
        match moves.iter().any(is_short) {
            true => self.check().await,
            false => Ok(()),
        }
    }

    /// The partition of the same number; dead letters make do with those that there are.
    fn partition(&self, to: &Move, partition: i32) -> Option<i32> {
        let count = self.counts().get(&to.topic).copied().filter(|count| *count > 0)?;
        Some(partition % count)
    }
}

/// Tells the lanes which keys wait, in the order of the messages, before any of them can come back.
fn register(reader: &Reader, token: &Token, steps: &[Step], now: Now) {
    if std::mem::replace(&mut token.progress().registered, true) {
        return;
    }
    let mut stock = reader.shared.stock();
    for (item, step) in token.items.iter().zip(steps) {
        let wait = match step {
            Step::Move(Move { wait: Some(wait), .. }) => *wait,
            Step::Keep { after, .. } => *after,
            _ => continue,
        };
        let entry = Arc::clone(&item.entry);
        if let Some(key) = &entry.message.key {
            stock.lane(&entry.place).moved(key, &entry.message.id, wait, now.instant);
        }
    }
}

/// What became of every message.
fn ends(token: &Token, steps: &[Step], now: Now) -> Vec<End> {
    let progress = token.progress();
    let end = |(at, step): (usize, &Step)| match step {
        Step::Done => End::Done,
        Step::Back => End::Back,
        Step::Keep { after, attempts } => End::Kept { due: now.instant + *after, attempts: *attempts },
        Step::Move(to) => match (progress.moved[at], to.wait) {
            (Some(true), Some(_)) => End::Moved,
            (Some(true), None) => End::Done,
            _ => End::Kept { due: now.instant + to.otherwise.0, attempts: to.otherwise.1 },
        },
    };
    steps.iter().enumerate().map(end).collect()
}

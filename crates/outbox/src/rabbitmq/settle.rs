//! What becomes of messages that were claimed: sent to other queues, put back, acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::desk::{Desk, Taken, lock};
use super::letter::{Known, Letter};
use super::moves::{self, Move};
use super::source::WorkQueue;
use crate::error::Result;
use crate::failpoint;
use crate::policy::Verdict;

/// The token of a claim.
pub(super) struct Token {
    pub(super) desk: Arc<Desk>,
    pub(super) entries: Mutex<Vec<Entry>>,
}

pub(super) struct Entry {
    /// None once it was given back to be claimed again.
    pub(super) letter: Option<Letter>,
    pub(super) known: Known,
    /// It has arrived in another queue.
    pub(super) moved: bool,
}

impl WorkQueue {
    /// Moves, then notes, then acknowledges. What has arrived elsewhere is not sent again if this has to be repeated.
    pub(super) async fn settle_claim(&self, token: &Token, verdicts: &[Verdict]) -> Result<()> {
        let desk = &token.desk;
        if desk.is_lost() {
            return Err(self.lost());
        }
        let (moves, steps): (Vec<Move>, Vec<_>) =
            self.moves(&lock(&token.entries), verdicts).into_iter().unzip();
        self.note_waiting(&lock(&token.entries), &moves, &steps);
        let (arrived, error) = moves::send(&desk.session, &self.place, &moves, self.deadline()).await;
        failpoint::pass("moved");
        self.note_arrived(&mut lock(&token.entries), &moves, &steps, &arrived);
        if let Some(error) = error {
            return Err(self.not_moved(desk, error));
        }
        let done = self.finish(desk, &mut lock(&token.entries), verdicts);
        failpoint::pass("acknowledging");
        desk.acknowledge(&done).await
    }

    /// What has to be sent to other queues; of the messages that have not gone there already.
    fn moves(&self, entries: &[Entry], verdicts: &[Verdict]) -> Vec<(Move, Option<Duration>)> {
        let now = Timestamp::now();
        let queue = &self.config.queue;
        let mut moves = Vec::new();
        // The steps of keys whose first goes away with this very claim.
        let mut steps: BTreeMap<&str, Duration> = BTreeMap::new();
        for (at, (entry, verdict)) in entries.iter().zip(verdicts).enumerate() {
            let Some(letter) = entry.letter.as_ref().filter(|_| !entry.moved) else { continue };
            let known = &entry.known;
            let key = known.key.as_deref();
            let (to, headers, step) = match verdict {
                Verdict::Done | Verdict::Released => continue,
                Verdict::Dead { attempts, cause, .. } => {
                    let attempts = (*attempts).max(known.tracks.attempts);
                    (self.config.dead.clone(), known.tracks.dead(queue, attempts, cause, now), None)
                }
                Verdict::Retry { after, attempts, cause } => {
                    let Some(step) = self.steps.best(*after) else { continue };
                    let tracks = known.tracks.retried(*attempts, cause, now, (*after).max(step));
                    (self.retry_queue(step), tracks.headers(queue), Some(step))
                }
                Verdict::Behind => {
                    let first =
                        key.and_then(|key| steps.get(key).copied().or_else(|| lock(&self.held).step(key)));
                    let Some(step) = first.or_else(|| self.steps.best(Duration::ZERO)) else { continue };
                    let tracks = known.tracks.waiting(now, Duration::ZERO);
                    (self.retry_queue(step), tracks.headers(queue), Some(step))
                }
            };
            if let (Some(key), Some(step)) = (key, step) {
                steps.insert(key, step);
            }
            let envelope = letter.envelope(&to, known, headers);
            moves.push((Move { at, envelope, payload: letter.payload.clone() }, step));
        }
        moves
    }

    /// Writes down which keys wait, in the order of their messages and before any of them is sent: should only some
    /// arrive, the others keep their places.
    fn note_waiting(&self, entries: &[Entry], moves: &[Move], steps: &[Option<Duration>]) {
        let (mut held, now) = (lock(&self.held), Instant::now());
        for (it, step) in moves.iter().zip(steps) {
            let Known { id, key, .. } = &entries[it.at].known;
            if let (Some(key), Some(step)) = (key, step) {
                held.moved(key, id, *step, now);
            }
        }
    }

    /// Writes down which have arrived in another queue.
    fn note_arrived(
        &self,
        entries: &mut [Entry],
        moves: &[Move],
        steps: &[Option<Duration>],
        arrived: &[usize],
    ) {
        let (mut held, arrived) = (lock(&self.held), BTreeSet::from_iter(arrived));
        for (it, step) in moves.iter().zip(steps).filter(|(it, _)| arrived.contains(&it.at)) {
            let entry = &mut entries[it.at];
            entry.moved = true;
            // Dead: its key goes on.
            if let (Some(key), None) = (&entry.known.key, step) {
                held.gone(key, &entry.known.id);
            }
        }
    }

    /// Puts back what stays here; tells what can be acknowledged.
    fn finish(&self, desk: &Desk, entries: &mut [Entry], verdicts: &[Verdict]) -> Vec<u64> {
        let now = Instant::now();
        let (mut done, mut stay) = (Vec::new(), Vec::new());
        let mut held = lock(&self.held);
        for (entry, verdict) in entries.iter_mut().zip(verdicts) {
            let Some(letter) = entry.letter.take() else { continue };
            let Known { id, key, tracks, .. } = &entry.known;
            if entry.moved || *verdict == Verdict::Done {
                done.push(letter.tag);
                if let Some(key) = key.as_deref().filter(|_| !entry.moved) {
                    held.gone(key, id);
                }
                continue;
            }
            let mut read = letter.read(&self.config.queue, &self.config.picks, self.config.max_payload);
            (read.message.attempts, read.tracks) = (tracks.attempts, tracks.clone());
            // Without retry queues what has to wait does so here.
            let wait = match verdict {
                Verdict::Retry { after, attempts, cause } => {
                    read.tracks = tracks.retried(*attempts, cause, Timestamp::now(), Duration::ZERO);
                    read.message.attempts = *attempts;
                    Some(*after)
                }
                Verdict::Behind => key.as_deref().and_then(|key| held.step(key)),
                _ => None,
            };
            match (key, wait) {
                (Some(key), Some(wait)) => held.moved(key, id, wait, now),
                (Some(key), None) => held.released(key, id, now),
                (None, _) => {}
            }
            stay.push((Taken { letter, read }, wait));
        }
        // Whoever claims takes the two locks in the other order.
        drop(held);
        for (taken, wait) in stay {
            match wait {
                Some(wait) => desk.put_off(taken, now + wait),
                None => desk.put_back(taken),
            }
        }
        done
    }
}

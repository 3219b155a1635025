//! What the source of a mapped table keeps in its memory, and how that follows what is written: by us, by whoever had the
//! shard before, and by people.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::aside::Aside;
use super::driver::Driver;
use super::settle::Taken;
use super::source::{OpenClaim, TableSource, text};
use super::sql::Cells;
use crate::error::{Error, ErrorKind, Result};
use crate::policy::Verdict;

/// How often the keys that wait for a person are read again.
const REFRESH: Duration = Duration::from_secs(1);

/// So many of the rows that wait are looked after each time.
const LOOKED_AFTER: usize = 1_000;

/// So many keys can be kept back.
const MOST_KEYS: usize = 100_000;

/// What waits longer is looked at again meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// How long a row waits that could not be set aside for good.
const NO_PLACE_PAUSE: Duration = Duration::from_secs(300);

impl<D: Driver> TableSource<D> {
    /// Reads what this relay may not know: at first what others have set aside, and now and then what people changed.
    pub(super) async fn refresh(&self) -> Result<()> {
        let before = *self.refreshed.lock().unwrap_or_else(PoisonError::into_inner);
        let left_over = self.aside().is_left_over(Instant::now());
        if before.is_some_and(|at| at.elapsed() < REFRESH) && !left_over {
            return Ok(());
        }
        let (layout, lane) = (self.layout(), self.shard.lane);
        let ordered = self.is_ordered();
        let held = layout.held_keys(lane, MOST_KEYS + 1).filter(|_| ordered && self.reading.holds);
        let asks_for_left = ordered && (before.is_none() || left_over);
        let left = if asks_for_left { layout.waiting(lane, MOST_KEYS) } else { Vec::new() };
        let ours = self.aside().waiting(LOOKED_AFTER);
        if held.is_some() || !left.is_empty() || !ours.is_empty() {
            let mut tx = self.driver.begin(None).await?;
            if let Some(sql) = held {
                let asked = Instant::now();
                let keys = self.driver.fetch(&mut tx, &sql).await?;
                if keys.len() > MOST_KEYS {
                    let what =
                        format!("more than {MOST_KEYS} keys are held by dead messages; retry or skip them");
                    return Err(Error::new(ErrorKind::Busy, what));
                }
                let keys: HashSet<String> = keys.into_iter().filter_map(|cells| text(&cells, 0)).collect();
                self.aside().hold_only(keys, asked);
            }
            if !left.is_empty() {
                // Before the table is asked: a claim may be settled meanwhile, and its rows are not left by anybody.
                let claimed = self.claimed();
                let mut rows = Vec::new();
                for sql in left {
                    rows.extend(self.driver.fetch(&mut tx, &sql).await?);
                }
                self.remember(&rows, &claimed);
            }
            if !ours.is_empty() {
                self.look_after(&mut tx, &ours).await?;
            }
            self.driver.roll_back(tx).await;
        }
        *self.refreshed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(())
    }

    /// Rows that wait may have been retried or let go by a person.
    async fn look_after(&self, tx: &mut D::Tx, ids: &[String]) -> Result<()> {
        let rows = self.driver.fetch(tx, &self.layout().pending_of(ids)).await?;
        let found: HashMap<String, Option<String>> =
            rows.iter().filter_map(|cells| Some((text(cells, 0)?, text(cells, 1)))).collect();
        let mut aside = self.aside();
        for id in ids {
            match found.get(id) {
                None => aside.remove(id),
                Some(attempts) if attempts.as_deref() == Some("0") => aside.revive(id, Instant::now()),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Rows that were set aside, or stamped, by whoever had this shard before. Their keys wait as a whole: what was
    /// stamped last may have been stamped alone, while the rows before it had been given back.
    fn remember(&self, rows: &[Cells], claimed: &HashSet<String>) {
        let now = Instant::now();
        let mut aside = self.aside();
        let mut left = Vec::new();
        for cells in rows {
            let (Some(id), Some(key)) = (text(cells, 0), text(cells, 1)) else { continue };
            if claimed.contains(&id) || aside.has(&id) {
                continue;
            }
            let wait = text(cells, 2).and_then(|text| text.parse::<i64>().ok()).unwrap_or(i64::MAX);
            let wait = Duration::from_micros(u64::try_from(wait).unwrap_or(0)).min(LONGEST_WAIT);
            left.push((key, now + wait));
        }
        aside.leave_only(left);
    }

    /// Remembers what a verdict means before it is written, so that no claim in between takes the row for fresh.
    pub(super) fn before(&self, aside: &mut Aside, row: &Taken, verdict: &Verdict) {
        match verdict {
            Verdict::Retry { after, attempts, .. } if self.remembers() => {
                aside.put(&row.id, row.key.as_deref(), Instant::now() + *after, *attempts);
                aside.out(&row.id);
            }
            Verdict::Dead { attempts, holds, .. } if !self.layout().mapping.can_be_dead() => {
                let key = row.key.as_deref().filter(|_| *holds);
                aside.put(&row.id, key, Instant::now() + NO_PLACE_PAUSE, *attempts);
                aside.out(&row.id);
            }
            Verdict::Dead { holds: true, .. } => {
                if let Some(key) = &row.key {
                    aside.hold(key);
                }
            }
            _ => {}
        }
    }

    /// Whatever was begun has failed, was cut off or is given back: only open claims have rows, nothing is about to be
    /// written but by them, and what the table has is to be read anew.
    pub(super) fn undo(&self) {
        let open: HashSet<String> = {
            let open = self.open();
            let of = |claim: &Arc<OpenClaim<D::Tx>>| {
                let decided = claim.decided.iter().map(|(row, _)| row.id.clone());
                let taken = claim.taken.iter().map(|row| row.id.clone());
                taken.chain(decided).chain(claim.left.iter().cloned()).collect::<Vec<_>>()
            };
            open.iter().flat_map(of).collect()
        };
        let mut aside = self.aside();
        aside.only_out(&open);
        aside.forget_unwritten();
        drop(aside);
        *self.refreshed.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The verdicts are written: what is done is forgotten, what waits may come when it is due.
    pub(super) fn after(&self, claim: &OpenClaim<D::Tx>, verdicts: &[Verdict]) {
        let mut aside = self.aside();
        let decided = claim.decided.iter().map(|(row, verdict)| (row, verdict));
        for (row, verdict) in claim.taken.iter().zip(verdicts).chain(decided) {
            let can_be_dead = self.layout().mapping.can_be_dead();
            match verdict {
                Verdict::Done => aside.remove(&row.id),
                Verdict::Dead { holds, .. } if can_be_dead => {
                    aside.remove(&row.id);
                    if let Some(key) = row.key.as_ref().filter(|_| *holds) {
                        aside.held_for_good(key, Instant::now());
                    }
                }
                _ => aside.back(&row.id),
            }
        }
        claim.left.iter().for_each(|id| aside.back(id));
    }
}

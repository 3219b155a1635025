//! From verdicts to what is written, and how a claim whose transaction was lost is settled all the same.

use super::catalog::Layout;
use super::driver::Driver;
use super::mapping::ClaimBy;
use super::source::{OpenClaim, State, TableSource, text};
use super::sql::FailedRow;
use crate::error::{Error, ErrorKind, Result};
use crate::failpoint;
use crate::policy::Verdict;

/// A row of a claim, as it was when it was claimed.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    pub(crate) id: String,
    pub(crate) key: Option<String>,
    /// The attempts as the table counts them; none if it does not.
    pub(crate) counted: Option<u32>,
}

/// What is written for a claim.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Done, and recorded as published.
    pub(crate) done: Vec<String>,
    /// Done, and recorded before.
    pub(crate) marked: Vec<String>,
    pub(crate) failed: Vec<FailedRow>,
    pub(crate) dead: Vec<FailedRow>,
    /// As they were.
    pub(crate) released: Vec<String>,
}

impl Changes {
    pub(crate) fn of(layout: &Layout, taken: &[Taken], verdicts: &[Verdict]) -> Self {
        let mut changes = Self::default();
        for (row, verdict) in taken.iter().zip(verdicts) {
            changes.add(layout, row, verdict);
        }
        changes
    }

    pub(crate) fn add(&mut self, layout: &Layout, row: &Taken, verdict: &Verdict) {
        let id = row.id.clone();
        match verdict {
            Verdict::Done => self.done.push(id),
            Verdict::Retry { after, attempts, cause } => {
                self.failed.push(FailedRow {
                    id,
                    attempts: *attempts,
                    error: cause.to_string(),
                    delay: *after,
                });
            }
            Verdict::Dead { attempts, cause, .. } => {
                // Where only the count tells that a row waits for a person, the count says so at once.
                let least =
                    if layout.mapping.dead.is_empty() { layout.mapping.attempts_limit() } else { None };
                let attempts = (*attempts).max(least.unwrap_or(0));
                let row =
                    FailedRow { id, attempts, error: cause.to_string(), delay: std::time::Duration::ZERO };
                if layout.mapping.can_be_dead() { self.dead.push(row) } else { self.failed.push(row) }
            }
            Verdict::Behind | Verdict::Released => self.released.push(id),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a second look at a claim's rows says.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// As they were when they were claimed.
    Untouched,
    /// The settle got through before.
    Settled,
    /// Somebody else had them since.
    Taken,
}

impl<D: Driver> TableSource<D> {
    pub(super) async fn apply(&self, tx: &mut D::Tx, changes: &Changes, stamp: Option<&str>) -> Result<()> {
        let layout = self.layout();
        let Changes { done, marked, failed, dead, released } = changes;
        for ids in [done, marked] {
            if !ids.is_empty() {
                self.driver.execute(tx, &layout.done(ids)).await?;
            }
        }
        if !done.is_empty()
            && let Some(sql) = layout.record(done)
        {
            self.driver.execute(tx, &sql).await?;
        }
        if !failed.is_empty() && layout.keeps_failures(&layout.mapping.failed) {
            for sql in layout.failed(failed, &layout.mapping.failed, true) {
                self.driver.execute(tx, &sql).await?;
            }
        }
        if !dead.is_empty() {
            let set =
                if layout.mapping.dead.is_empty() { &layout.mapping.failed } else { &layout.mapping.dead };
            for sql in layout.failed(dead, set, false) {
                self.driver.execute(tx, &sql).await?;
            }
        }
        if let (ClaimBy::Stamp { column, .. }, Some(stamp)) = (&layout.mapping.claim, stamp)
            && !released.is_empty()
        {
            self.driver.execute(tx, &layout.take_stamp_off(released, column, stamp)).await?;
        }
        Ok(())
    }

    /// Writes the changes in the claim's own transaction, or in a new one if that is lost.
    pub(super) async fn write(
        &self,
        claim: &OpenClaim<D::Tx>,
        changes: &Changes,
        verdicts: &[Verdict],
    ) -> Result<()> {
        let mut state = claim.state.lock().await;
        match std::mem::replace(&mut *state, State::Loose) {
            State::Settled => {}
            State::Closed => {
                *state = State::Closed;
                return Err(lost());
            }
            State::Held(tx) => match self.write_held(tx, changes).await {
                // Whether it got through is not known, and the rows may be free by now: look again.
                Err(error) if error.is_temporary() => self.write_again(claim, changes, verdicts).await?,
                other => other?,
            },
            State::Loose => self.write_again(claim, changes, verdicts).await?,
        }
        *state = State::Settled;
        Ok(())
    }

    async fn write_held(&self, mut tx: D::Tx, changes: &Changes) -> Result<()> {
        self.apply(&mut tx, changes, None).await?;
        self.commit(tx).await
    }

    async fn commit(&self, tx: D::Tx) -> Result<()> {
        failpoint::pass("settle_before_commit");
        self.driver.commit(tx).await?;
        failpoint::pass("settle_after_commit");
        Ok(())
    }

    async fn write_again(
        &self,
        claim: &OpenClaim<D::Tx>,
        changes: &Changes,
        verdicts: &[Verdict],
    ) -> Result<()> {
        let tx = self.driver.begin(None).await?;
        let mut tx = self.prove(tx).await?;
        match self.look_again(&mut tx, claim, verdicts).await? {
            Found::Untouched => {
                self.apply(&mut tx, changes, claim.stamp.as_deref()).await?;
                self.commit(tx).await
            }
            Found::Settled => {
                self.driver.roll_back(tx).await;
                Ok(())
            }
            Found::Taken => {
                self.driver.roll_back(tx).await;
                Err(lost())
            }
        }
    }

    async fn look_again(
        &self,
        tx: &mut D::Tx,
        claim: &OpenClaim<D::Tx>,
        verdicts: &[Verdict],
    ) -> Result<Found> {
        let ids: Vec<String> = claim.taken.iter().map(|row| row.id.clone()).collect();
        let cells = self.driver.fetch(tx, &self.layout().lock_again(&ids)).await?;
        let pending: std::collections::HashMap<String, (Option<u32>, Option<String>)> = cells
            .iter()
            .filter_map(|cells| {
                let attempts = text(cells, 1).and_then(|text| text.parse().ok());
                Some((text(cells, 0)?, (attempts, text(cells, 2))))
            })
            .collect();
        let untouched = |row: &Taken| {
            pending
                .get(&row.id)
                .is_some_and(|(attempts, stamp)| *attempts == row.counted && *stamp == claim.stamp)
        };
        if claim.taken.iter().all(untouched) {
            return Ok(Found::Untouched);
        }
        // What is locked tells nothing: another relay may have it, or the session that we have lost still does.
        let hidden: Vec<String> = ids.into_iter().filter(|id| !pending.contains_key(id)).collect();
        if !hidden.is_empty() && !self.driver.fetch(tx, &self.layout().pending_of(&hidden)).await?.is_empty()
        {
            return Err(Error::new(ErrorKind::Busy, "rows of this claim are locked by another session"));
        }
        let settled = |(row, verdict): (&Taken, &Verdict)| match verdict {
            Verdict::Done | Verdict::Dead { .. } => !pending.contains_key(&row.id),
            Verdict::Retry { attempts, .. } => {
                pending.get(&row.id).is_some_and(|(found, _)| found.is_none() || *found == Some(*attempts))
            }
            Verdict::Behind | Verdict::Released => true,
        };
        Ok(if claim.taken.iter().zip(verdicts).all(settled) { Found::Settled } else { Found::Taken })
    }

    /// Takes our stamp off what was not settled.
    pub(super) async fn give_back(&self, claim: &OpenClaim<D::Tx>) -> Result<()> {
        let (ClaimBy::Stamp { column, .. }, Some(stamp)) = (&self.layout().mapping.claim, &claim.stamp)
        else {
            return Ok(());
        };
        let ids: Vec<String> = claim.taken.iter().map(|row| row.id.clone()).collect();
        let mut tx = self.driver.begin(None).await?;
        self.driver.execute(&mut tx, &self.layout().take_stamp_off(&ids, column, stamp)).await?;
        self.driver.commit(tx).await
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Lost, "the rows of this claim are somebody else's")
}

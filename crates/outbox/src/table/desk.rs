//! What a person sees and does, of a mapped table: the same for every database.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::catalog::Layout;
use super::driver::Driver;
use super::row::Row;
use super::source::text;
use super::sql::{Cells, Sql};
use crate::admin::{Activity, COUNTED_AT_MOST, CursorStatus, Entry, Filter, Repair, Stand, Story};
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageId;
use crate::sink::Cause;

/// Tables with one pipe that reads them.
pub(crate) struct Desk<'a, D: Driver> {
    pub(crate) driver: &'a D,
    pub(crate) tables: Vec<&'a Arc<Layout>>,
    /// The name of the pipe.
    pub(crate) pipe: &'a str,
}

impl<D: Driver> Desk<'_, D> {
    /// How each table stands; `owners` says who reads it.
    pub(crate) async fn status(&self, owners: Vec<Option<String>>) -> Result<Vec<CursorStatus>> {
        let mut all = Vec::new();
        let lanes = self.tables.len() as u32;
        for ((lane, layout), owner) in (0..).zip(&self.tables).zip(owners) {
            let mut tx = self.driver.begin(None).await?;
            let oldest = match layout.oldest() {
                Some(sql) => {
                    self.driver.fetch(&mut tx, &sql).await?.first().and_then(|cells| number(cells, 0))
                }
                None => None,
            };
            let age = oldest.and_then(|micros| Timestamp::from_microsecond(micros).ok());
            let lag_seconds = age.map(|at| Timestamp::now().duration_since(at).as_secs_f64().max(0.0));
            let (pending, waiting, dead) = (
                self.count(&mut tx, layout, Stand::Pending).await?,
                self.count(&mut tx, layout, Stand::Waiting).await?,
                self.count(&mut tx, layout, Stand::Dead).await?,
            );
            self.driver.roll_back(tx).await;
            all.push(CursorStatus {
                cursor: self.pipe.to_owned(),
                lane,
                lanes,
                owner,
                lease_until: None,
                pending,
                lag_seconds,
                waiting,
                behind: 0,
                dead,
                delivered: None,
            });
        }
        Ok(all)
    }

    async fn count(&self, tx: &mut D::Tx, layout: &Layout, stand: Stand) -> Result<u64> {
        match layout.stands(stand) {
            Some(condition) => self.one_number(tx, &layout.count(&condition, COUNTED_AT_MOST)).await,
            None => Ok(0),
        }
    }

    async fn one_number(&self, tx: &mut D::Tx, sql: &Sql) -> Result<u64> {
        let rows = self.driver.fetch(tx, sql).await?;
        let number = rows.first().and_then(|cells| number(cells, 0)).unwrap_or(0);
        Ok(u64::try_from(number).unwrap_or(0))
    }

    fn is_meant(&self, filter: &Filter) -> bool {
        filter.cursor.as_deref().is_none_or(|cursor| cursor == self.pipe)
    }

    /// Rows that match. A row has no number of its own: its position is its place in this very list.
    pub(crate) async fn list(&self, filter: &Filter) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        if !self.is_meant(filter) {
            return Ok(entries);
        }
        let after = filter.after.unwrap_or(0);
        // How many rows of earlier tables the list has passed.
        let mut passed = 0;
        let mut tx = self.driver.begin(None).await?;
        let mut tables: Vec<_> = self.tables.iter().collect();
        if filter.newest_first {
            tables.reverse();
        }
        for layout in tables {
            let room = (filter.page() - entries.len()) as u64;
            if room == 0 {
                break;
            }
            let skip = after.saturating_sub(passed);
            let rows = self.driver.fetch(&mut tx, &layout.list(filter, skip, room)?).await?;
            if rows.is_empty() && skip > 0 {
                let count = layout.count_matching(filter, skip + 1)?;
                passed += self.driver.fetch(&mut tx, &count).await?.len() as u64;
                continue;
            }
            passed += skip;
            for cells in rows {
                passed += 1;
                entries.push(self.entry(layout, cells, passed).0);
            }
        }
        self.driver.roll_back(tx).await;
        Ok(entries)
    }

    fn entry(&self, layout: &Layout, cells: Cells, position: u64) -> (Entry, Row) {
        let extra = layout.extra();
        let stand = match text(&cells, extra.stand).as_deref() {
            Some("pending") => Stand::Pending,
            Some("waiting") => Stand::Waiting,
            Some("dead") => Stand::Dead,
            _ => Stand::Done,
        };
        let due = number(&cells, extra.due).and_then(|micros| Timestamp::from_microsecond(micros).ok());
        let cause = text(&cells, extra.error).filter(|error| !error.is_empty() && stand != Stand::Done);
        let row = Row::read(layout, cells);
        let (kind, occurred_at) = match &row.message {
            Ok(message) => (message.kind.clone(), message.occurred_at),
            Err(_) => (String::new(), Timestamp::UNIX_EPOCH),
        };
        let entry = Entry {
            position,
            id: row.id.as_str().into(),
            kind,
            key: row.key.clone(),
            occurred_at,
            cursor: Some(self.pipe.to_owned()),
            stand,
            attempts: row.attempts.unwrap_or(0),
            due: due.filter(|_| stand == Stand::Waiting),
            cause: cause.map(|error| as_cause(&error)),
        };
        (entry, row)
    }

    pub(crate) async fn show(&self, id: &MessageId) -> Result<Option<Story>> {
        let filter = Filter { id: Some(id.clone()), ..Filter::default() };
        let mut tx = self.driver.begin(None).await?;
        for layout in &self.tables {
            let rows = self.driver.fetch(&mut tx, &layout.list(&filter, 0, 1)?).await?;
            let Some(cells) = rows.into_iter().next() else { continue };
            let (entry, row) = self.entry(layout, cells, 1);
            let mut message = row.message.map_err(|cause| {
                Error::new(
                    ErrorKind::Invalid,
                    format!("row '{id}' of table '{}' is no message: {cause}", layout.table),
                )
            })?;
            message.attempts = entry.attempts;
            return Ok(Some(Story { message, entries: vec![entry] }));
        }
        Ok(None)
    }

    pub(crate) async fn repair(&self, filter: &Filter, repair: Repair, dry_run: bool) -> Result<u64> {
        let mut repaired = 0;
        if !self.is_meant(filter) {
            return Ok(0);
        }
        let mut tx = self.driver.begin(None).await?;
        for layout in &self.tables {
            if dry_run {
                if let Some(sql) = layout.count_repairable(filter)? {
                    repaired += self.one_number(&mut tx, &sql).await?;
                }
                continue;
            }
            let sql = match repair {
                Repair::Retry => layout.revive(filter)?,
                Repair::Skip => layout.let_go(filter)?,
            };
            if let Some(sql) = sql {
                repaired += self.driver.execute(&mut tx, &sql).await?;
            }
            let still_dead = Filter { stand: Some(Stand::Dead), ..filter.clone() };
            if repair == Repair::Retry
                && filter.stand != Some(Stand::Waiting)
                && !layout.mapping.without_a_way_back().is_empty()
                && let Some(sql) = layout.count_repairable(&still_dead)?
                && self.one_number(&mut tx, &sql).await? > 0
            {
                self.driver.roll_back(tx).await;
                let columns: Vec<_> =
                    layout.mapping.without_a_way_back().iter().map(ToString::to_string).collect();
                let what = format!(
                    "the mapping does not say how a dead row becomes pending again: let 'pending' ask for the value that \
                     a fresh row has in {}",
                    columns.join(", ")
                );
                return Err(Error::new(ErrorKind::Mapping, what));
            }
        }
        self.driver.commit(tx).await?;
        Ok(repaired)
    }

    pub(crate) fn replay(&self) -> Result<u64> {
        let what = "a mapped table cannot be replayed: its marks are its only progress";
        Err(Error::new(ErrorKind::Mapping, what))
    }

    pub(crate) async fn purge(&self, age: Duration, step: u32, dry_run: bool) -> Result<u64> {
        let mut removed = 0;
        for layout in &self.tables {
            let Some(sql) = layout.old(age, step) else {
                let what = "the mapping does not say when a row was done ('done' sets no column to now)";
                return Err(Error::new(ErrorKind::Mapping, what));
            };
            let mut tx = self.driver.begin(None).await?;
            let ids: Vec<String> =
                self.driver.fetch(&mut tx, &sql).await?.iter().filter_map(|cells| text(cells, 0)).collect();
            if dry_run || ids.is_empty() {
                removed += ids.len() as u64;
                self.driver.roll_back(tx).await;
                continue;
            }
            removed += self.driver.execute(&mut tx, &layout.remove(&ids)).await?;
            self.driver.commit(tx).await?;
        }
        Ok(removed)
    }

    pub(crate) async fn activity(&self) -> Result<Option<Activity>> {
        let mut activity = Activity::default();
        let mut by_minute = std::collections::BTreeMap::<i64, u64>::new();
        let mut tx = self.driver.begin(None).await?;
        for layout in &self.tables {
            let Some(sql) = layout.by_minute() else { return Ok(None) };
            for cells in self.driver.fetch(&mut tx, &sql).await? {
                if let (Some(minute), Some(count)) = (number(&cells, 0), number(&cells, 1)) {
                    *by_minute.entry(minute).or_default() += u64::try_from(count).unwrap_or(0);
                }
            }
            if let Some(condition) = layout.tried_often() {
                activity.tried_often +=
                    self.one_number(&mut tx, &layout.count(&condition, COUNTED_AT_MOST)).await?;
            }
        }
        self.driver.roll_back(tx).await;
        activity.done_last_hour = by_minute.values().sum();
        let at =
            |minute: i64| Timestamp::from_second(minute.saturating_mul(60)).unwrap_or(Timestamp::UNIX_EPOCH);
        activity.by_minute = by_minute.into_iter().rev().map(|(minute, count)| (at(minute), count)).collect();
        Ok(Some(activity))
    }
}

fn number(cells: &Cells, at: usize) -> Option<i64> {
    text(cells, at)?.parse().ok()
}

/// An error that we wrote begins with its code; what others wrote has none.
fn as_cause(error: &str) -> Cause {
    match error.split_once(": ") {
        Some((code, detail))
            if !code.is_empty() && code.chars().all(|c| c.is_ascii_uppercase() || c == '_') =>
        {
            Cause::new(code.to_owned(), detail)
        }
        _ => Cause::new("", error),
    }
}

//! Which pipes stand still because somebody wants it so: the contract of [`Pauses`].
//!
//! `postgres::pauses`, `mysql::pauses` and `sqlite::pauses` keep them beside the other tables, so that every instance follows
//! them, also one that starts later.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;

use crate::error::Result;
use crate::schema::Type;
use crate::sheet::{Cell, Row, Sheet, Sql, Value, now, text_at, time_of};
use crate::sql::Kind;

/// The pipes that are paused.
///
/// - **Z1** A pause is seen by everybody who asks, until it is resumed: by pipe, with who, why and when, on the clock of the
///   database. Pipes are paused each by itself.
/// - **Z2** Pausing what is paused keeps the first person, time and note, and tells them.
/// - **Z3** Resuming tells whose pause has ended; what is not paused is told as such, and nothing changes.
/// - **Z4** Of several who pause a pipe at once one has done it, and the others are told who; of several who resume it one.
#[async_trait]
pub trait Pauses: Send + Sync {
    /// Pauses a pipe, now.
    async fn pause(&self, pipe: &str, by: &str, note: Option<&str>) -> Result<Paused>;

    /// Lets it go on; the pause that has ended, or nothing if there was none.
    async fn resume(&self, pipe: &str) -> Result<Option<Pause>>;

    /// Every pause there is, by pipe.
    async fn list(&self) -> Result<Vec<Pause>>;
}

/// A pipe that stands still because somebody wants it so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pause {
    /// The pipe.
    pub pipe: String,
    /// Who paused it.
    pub by: String,
    /// When, on the clock of the database.
    pub at: Timestamp,
    /// Why, if that was said.
    pub note: Option<String>,
}

/// What became of a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Paused {
    /// It has just begun.
    Now(Pause),
    /// There was one before, which stays.
    Already(Pause),
}

impl Paused {
    /// The pause that there is.
    pub fn pause(&self) -> &Pause {
        match self {
            Self::Now(pause) | Self::Already(pause) => pause,
        }
    }
}

/// In the order of the table.
const COLUMNS: [&str; 4] = ["pipe", "paused_by", "paused_at", "note"];

pub(crate) struct TablePauses<S> {
    store: S,
}

impl<S: Sheet> TablePauses<S> {
    pub(crate) fn new(store: S) -> Self {
        Self { store }
    }

    fn table() -> &'static str {
        if S::KIND == Kind::Postgres { "outbox.pauses" } else { "outbox_pauses" }
    }

    fn cell(name: &str) -> Cell {
        let short = if S::KIND == Kind::MySql { Some(255) } else { None };
        let kind = match name {
            "paused_at" => Type::Time { zoned: true },
            "note" => Type::Text(None),
            _ => Type::Text(short),
        };
        Cell::ours(S::KIND, name, kind)
    }

    /// Writes nothing where there is one already.
    fn insert(pipe: &str, by: &str, note: Option<&str>) -> Result<Sql> {
        // MySQL refuses the row, which the sheet tells as none written.
        let tail = if S::KIND == Kind::MySql { ")" } else { ") on conflict (pipe) do nothing" };
        Sql::new(S::KIND, format!("insert into {} ({}) values (", Self::table(), COLUMNS.join(", ")))
            .put(&Self::cell("pipe"), &Value::text(Some(pipe)))?
            .push(", ")
            .put(&Self::cell("paused_by"), &Value::sentence(Some(by)))?
            .push(&format!(", {}, ", now(S::KIND)))
            .put(&Self::cell("note"), &Value::sentence(note))
            .map(|sql| sql.push(tail))
    }

    fn select() -> Sql {
        let reads: Vec<String> = COLUMNS.iter().map(|name| Self::cell(name).read(S::KIND)).collect();
        Sql::new(S::KIND, format!("select {} from {}", reads.join(", "), Self::table()))
    }

    fn select_one(pipe: &str) -> Result<Sql> {
        Self::select().push(" where pipe = ").put(&Self::cell("pipe"), &Value::text(Some(pipe)))
    }

    /// Whoever else would end it waits; SQLite has one writer at a time anyway.
    fn lock_one(pipe: &str) -> Result<Sql> {
        let tail = if S::KIND == Kind::Sqlite { "" } else { " for update" };
        Ok(Self::select_one(pipe)?.push(tail))
    }

    fn delete(pipe: &str) -> Result<Sql> {
        let sql = Sql::new(S::KIND, format!("delete from {} where pipe = ", Self::table()));
        sql.put(&Self::cell("pipe"), &Value::text(Some(pipe)))
    }

    async fn find(&self, tx: &mut S::Tx, sql: Sql) -> Result<Option<Pause>> {
        let rows = self.store.fetch(tx, sql).await?;
        Ok(rows.first().map(pause))
    }
}

fn pause(row: &Row) -> Pause {
    let text = |at| text_at(row, at);
    Pause {
        pipe: text(0).unwrap_or_default(),
        by: text(1).unwrap_or_default(),
        at: time_of(text(2)).unwrap_or(Timestamp::UNIX_EPOCH),
        note: text(3),
    }
}

#[async_trait]
impl<S: Sheet> Pauses for TablePauses<S> {
    async fn pause(&self, pipe: &str, by: &str, note: Option<&str>) -> Result<Paused> {
        loop {
            let mut tx = self.store.begin().await?;
            let written = self.store.execute(&mut tx, Self::insert(pipe, by, note)?).await?;
            // Without a lock: MySQL has a weak one on a row that was in the way, and of two who would make it a strong
            // one, one loses.
            let found = self.find(&mut tx, Self::select_one(pipe)?).await?;
            self.store.commit(tx).await?;
            match (found, written) {
                (Some(pause), 0) => return Ok(Paused::Already(pause)),
                (Some(pause), _) => return Ok(Paused::Now(pause)),
                // Somebody resumed it in between.
                (None, _) => {}
            }
        }
    }

    async fn resume(&self, pipe: &str) -> Result<Option<Pause>> {
        let mut tx = self.store.begin().await?;
        let found = self.find(&mut tx, Self::lock_one(pipe)?).await?;
        let removed = self.store.execute(&mut tx, Self::delete(pipe)?).await?;
        self.store.commit(tx).await?;
        Ok(found.filter(|_| removed > 0))
    }

    async fn list(&self) -> Result<Vec<Pause>> {
        let rows = self.store.look(Self::select().push(" order by pipe")).await?;
        Ok(rows.iter().map(pause).collect())
    }
}

//! What type each value of a statement has, as the server sees it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::postgres::PgPool;
use sqlx::{AssertSqlSafe, PgConnection, Row};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::postgres::error::classify;
use crate::sql::{Statement, Statements, unprepared};

const TYPES: &str = "
    select array(select format_type(kind::oid, null) from unnest(parameter_types) with ordinality as p (kind, place)
                 order by place) as types
    from pg_prepared_statements where name = $1";

/// The type of a value, by its name in SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Type {
    Bytes,
    Json(String),
    Other(String),
}

impl Type {
    fn of(name: String) -> Self {
        match name.as_str() {
            "bytea" => Self::Bytes,
            "json" | "jsonb" => Self::Json(name),
            _ => Self::Other(name),
        }
    }

    /// What stands in the statement for the value of this number, from 1.
    pub(super) fn cast(&self, number: usize) -> String {
        match self {
            Self::Bytes => format!("(${number}::bytea)"),
            Self::Json(name) | Self::Other(name) => format!("(${number}::text::{name})"),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes => f.write_str("bytea"),
            Self::Json(name) | Self::Other(name) => f.write_str(name),
        }
    }
}

/// A statement as it goes to the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Learned {
    pub(super) text: String,
    pub(super) types: Vec<Type>,
}

pub(super) struct Learner {
    pool: PgPool,
    statements: Statements,
    learned: Mutex<Option<Arc<Vec<Learned>>>>,
}

impl Learner {
    pub(super) fn new(pool: PgPool, statements: Statements) -> Self {
        Self { pool, statements, learned: Mutex::new(None) }
    }

    pub(super) fn statements(&self) -> &[Statement] {
        &self.statements.all
    }

    pub(super) fn learned(&self) -> Option<Arc<Vec<Learned>>> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks the server, unless it was asked already.
    pub(super) async fn learn(&self) -> Result<()> {
        if self.learned().is_none() {
            self.keep(self.ask().await?);
        }
        Ok(())
    }

    /// Asks again; tells whether the answer is another one.
    pub(super) async fn has_changed(&self) -> bool {
        let (before, Ok(now)) = (self.learned(), self.ask().await) else { return false };
        let changed = before.is_some_and(|before| *before != now);
        if changed {
            self.keep(now);
        }
        changed
    }

    /// Asks again before the next message.
    pub(super) fn forget(&self) {
        *self.learned.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn keep(&self, learned: Vec<Learned>) {
        *self.learned.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(learned));
    }

    /// Inside of a transaction, so that a pooler leaves us in one session.
    async fn ask(&self) -> Result<Vec<Learned>> {
        let failed = |error| classify(error, "looking at the statements");
        let mut tx = self.pool.begin().await.map_err(failed)?;
        let mut learned = Vec::new();
        for statement in self.statements() {
            let types = types(&mut tx, statement).await?;
            let text = statement.text(|place| types[place].cast(place + 1));
            learned.push(Learned { text, types });
        }
        tx.rollback().await.map_err(failed)?;
        Ok(learned)
    }
}

/// Whether the server can make sense of a statement, which is not run; `false` if it cannot be asked.
pub(super) async fn is_understood(conn: &mut PgConnection, statement: &Statement) -> Result<bool> {
    const WORDS: [&str; 7] = ["select", "insert", "update", "delete", "merge", "values", "with"];
    let text = numbered(statement);
    // What is no query has no values: those that have are prepared before they are run, whatever they are.
    if is_call(&text) || (statement.values.is_empty() && !WORDS.iter().any(|word| begins(&text, word))) {
        return Ok(false);
    }
    prepare(conn, statement.number, &text).await?.forget(conn).await?;
    Ok(true)
}

async fn types(conn: &mut PgConnection, statement: &Statement) -> Result<Vec<Type>> {
    let text = numbered(statement);
    let untyped = || vec![Type::Other("text".to_owned()); statement.values.len()];
    // A statement without values has nothing to tell.
    if is_call(&text) || statement.values.is_empty() {
        return Ok(untyped());
    }
    let prepared = prepare(conn, statement.number, &text).await?;
    let row = sqlx::query(TYPES).bind(&prepared.name).persistent(false).fetch_one(&mut *conn).await;
    let names: Vec<String> = row.map_err(|error| prepared.failed(error))?.get("types");
    prepared.forget(conn).await?;
    if names.len() != statement.values.len() {
        return Ok(untyped());
    }
    Ok(names.into_iter().map(Type::of).collect())
}

fn numbered(statement: &Statement) -> String {
    statement.text(|place| format!("${}", place + 1))
}

/// A call cannot be prepared.
fn is_call(text: &str) -> bool {
    begins(text, "call")
}

fn begins(text: &str, word: &str) -> bool {
    text.trim_start().get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// A statement that the server has prepared in this session.
struct Prepared {
    name: String,
    number: usize,
}

async fn prepare(conn: &mut PgConnection, number: usize, text: &str) -> Result<Prepared> {
    let prepared = Prepared { name: format!("outbox_{}", Uuid::new_v4().simple()), number };
    let prepare = AssertSqlSafe(format!("prepare {} as {text}", prepared.name));
    sqlx::raw_sql(prepare).execute(conn).await.map_err(|error| prepared.failed(error))?;
    Ok(prepared)
}

impl Prepared {
    async fn forget(self, conn: &mut PgConnection) -> Result<()> {
        let deallocate = AssertSqlSafe(format!("deallocate {}", self.name));
        sqlx::raw_sql(deallocate).execute(conn).await.map(drop).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: sqlx::Error) -> Error {
        match &error {
            sqlx::Error::Database(database) if database.code().is_some_and(|code| code.starts_with("42")) => {
                unprepared(self.number, error)
            }
            _ => classify(error, format_args!("looking at statement {}", self.number)),
        }
    }
}

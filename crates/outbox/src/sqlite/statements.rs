//! Statements run for each message: the handler that is written in SQL.

use std::sync::Arc;

use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Executor as _, SqlSafeStr as _, Sqlite, SqliteConnection, SqlitePool};

use super::error::classify;
use super::inbox::Inbox;
use crate::error::Result;
use crate::finding::Finding;
use crate::inbox::Failure;
use crate::message::Message;
use crate::sink::Sink;
use crate::sql::{Again, Bound, Fault, Kind, Statement, Statements, Value, finding, text_of, unprepared};
use crate::view::View;

impl Inbox {
    /// A sink that runs statements once per message, in one transaction with the inbox. [`crate::sql`] tells the values
    /// and the outcomes.
    ///
    /// A time is text in RFC 3339. A column takes whatever is bound, unless its table is STRICT or has a CHECK.
    pub fn sql(&self, consumer: &str, statements: Statements) -> Result<impl Sink + use<>> {
        statements.check(Kind::Sqlite)?;
        let timeout = statements.timeout;
        let texts: Vec<String> =
            statements.all.iter().map(|statement| statement.text(|_| "?".to_owned())).collect();
        let shared = Arc::new((statements, texts));
        let handler = self.handler(consumer, move |mut tx, message: Message| {
            let shared = shared.clone();
            async move { run(&mut tx, &shared.0, &shared.1, &message).await }
        });
        Ok(Again(match timeout {
            Some(timeout) => handler.timeout(timeout),
            None => handler,
        }))
    }
}

/// Asks the database to prepare each statement, and runs none.
pub async fn examine_statements(pool: &SqlitePool, statements: &Statements) -> Vec<Finding> {
    let mut findings = Vec::new();
    for statement in &statements.all {
        findings.push(finding(statement.number, prepare(pool, statement).await));
    }
    findings
}

async fn prepare(pool: &SqlitePool, statement: &Statement) -> Result<bool> {
    let text = AssertSqlSafe(statement.text(|_| "?".to_owned())).into_sql_str();
    let Err(error) = pool.prepare(text).await else { return Ok(true) };
    let is_misspelt = error.as_database_error().is_some_and(|database| is_misspelt(database.message()));
    Err(if is_misspelt { unprepared(statement.number, error) } else { classify(pool, error) })
}

async fn run(
    conn: &mut SqliteConnection,
    statements: &Statements,
    texts: &[String],
    message: &Message,
) -> Result<(), Failure> {
    let view = View::new(message);
    for (statement, text) in statements.all.iter().zip(texts) {
        let mut query = sqlx::query(AssertSqlSafe(text.as_str()));
        for (value, bound) in statement.values.iter().zip(statement.bind(&view)?) {
            query = bind(query, value, bound)?;
        }
        query.execute(&mut *conn).await.map_err(|error| fault(&error, &statement.about()))?;
    }
    Ok(())
}

type Bare<'q> = Query<'q, Sqlite, SqliteArguments>;

fn bind<'q>(query: Bare<'q>, value: &Value, bound: Bound) -> Result<Bare<'q>, Failure> {
    use serde_json::Value as Json;
    Ok(match bound {
        Bound::Null => query.bind(None::<String>),
        Bound::Text(text) | Bound::Json(Json::String(text)) => query.bind(text),
        Bound::Int(number) => query.bind(number),
        Bound::Time(time) => query.bind(time.to_string()),
        Bound::Json(Json::Bool(is)) => query.bind(is),
        Bound::Json(Json::Number(number)) => match number.as_i64() {
            Some(number) => query.bind(number),
            None => query.bind(number.as_f64()),
        },
        Bound::Json(json) => query.bind(json.to_string()),
        Bound::Payload(payload) => query.bind(text_of(&payload).map_err(|why| value.unfit(why))?.to_owned()),
    })
}

fn fault(error: &sqlx::Error, about: &str) -> Fault {
    let Some(database) = error.as_database_error() else {
        return Fault::Outage(format!("{about}: {error}"));
    };
    let code = database.code().and_then(|code| code.parse().ok()).unwrap_or(1);
    judge(code, database.message(), about)
}

/// By result code, see <https://www.sqlite.org/rescode.html>; extended codes have the code in the low byte. SQLite
/// names columns in its messages, never a value.
fn judge(code: u32, message: &str, about: &str) -> Fault {
    const CONSTRAINT_DATATYPE: u32 = 3091;
    let told = format!("{about}: {message}");
    match (code, code & 0xff) {
        (CONSTRAINT_DATATYPE, _) | (_, 18 | 20) => Fault::Value(told),
        (_, 19) => Fault::Refused(told),
        // A statement of another connection to the same cache has the table, or wrote since this one read.
        (517, _) | (_, 6) => Fault::Conflict(told),
        (_, 1) if message.contains("malformed JSON") || message.contains("bad JSON path") => {
            Fault::Value(told)
        }
        // One word covers what is misspelt and what a function objects to; the former is told when it is prepared.
        (_, 1) if is_misspelt(message) => Fault::Outage(told),
        (_, 1) => Fault::Refused(told),
        _ => Fault::Outage(told),
    }
}

fn is_misspelt(message: &str) -> bool {
    const BEGIN: [&str; 7] = [
        "no such ",
        "near ",
        "incomplete input",
        "unrecognized token",
        "ambiguous ",
        "wrong number of ",
        "misuse of ",
    ];
    const INNER: [&str; 5] =
        [" has no column", " values for ", " columns but ", " may not be ", "cannot modify "];
    BEGIN.iter().any(|part| message.starts_with(part)) || INNER.iter().any(|part| message.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_tell_whose_fault_it_is() {
        for (code, message, expected) in [
            (2067, "UNIQUE constraint failed: t.id", "Refused"),
            (1811, "the shelf is full", "Refused"),
            (3091, "cannot store TEXT value in INTEGER column t.qty", "Value"),
            (20, "datatype mismatch", "Value"),
            (1, "malformed JSON", "Value"),
            (1, "no such table: t", "Outage"),
            (1, "table t has no column named x", "Outage"),
            (1, "near \"insrt\": syntax error", "Outage"),
            (1, "integer overflow", "Refused"),
            (5, "database is locked", "Outage"),
            (262, "database table is locked", "Conflict"),
            (13, "database or disk is full", "Outage"),
        ] {
            assert!(format!("{:?}", judge(code, message, "s")).starts_with(expected), "{code} {message}");
        }
    }
}

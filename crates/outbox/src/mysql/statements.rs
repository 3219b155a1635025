//! Statements run for each message: the handler that is written in SQL.

use std::sync::Arc;

use sqlx::mysql::MySqlArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Executor as _, MySql, MySqlConnection, MySqlPool, SqlSafeStr as _};

use super::error::{classify, number};
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
    /// Times are UTC. A value that a column cannot hold is told only in a strict session, which the pool of
    /// [`connect`](super::connect()) has; otherwise the server would cut it to fit. A statement that commits by itself,
    /// such as one that makes a table, is no handler.
    pub fn sql(&self, consumer: &str, statements: Statements) -> Result<impl Sink + use<>> {
        statements.check(Kind::MySql)?;
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
pub async fn examine_statements(pool: &MySqlPool, statements: &Statements) -> Vec<Finding> {
    let mut findings = Vec::new();
    for statement in &statements.all {
        findings.push(finding(statement.number, prepare(pool, statement).await));
    }
    findings
}

async fn prepare(pool: &MySqlPool, statement: &Statement) -> Result<bool> {
    let text = AssertSqlSafe(statement.text(|_| "?".to_owned())).into_sql_str();
    match pool.prepare(text).await {
        Ok(_) => Ok(true),
        Err(error @ sqlx::Error::Database(_)) => Err(unprepared(statement.number, error)),
        Err(error) => Err(classify(error, "looking at the statements")),
    }
}

async fn run(
    conn: &mut MySqlConnection,
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

type Bare<'q> = Query<'q, MySql, MySqlArguments>;

fn bind<'q>(query: Bare<'q>, value: &Value, bound: Bound) -> Result<Bare<'q>, Failure> {
    use serde_json::Value as Json;
    Ok(match bound {
        Bound::Null => query.bind(None::<String>),
        Bound::Text(text) | Bound::Json(Json::String(text)) => query.bind(text),
        Bound::Int(number) => query.bind(number),
        Bound::Time(time) => query.bind(time.strftime("%Y-%m-%d %H:%M:%S%.6f").to_string()),
        Bound::Json(Json::Bool(is)) => query.bind(is),
        Bound::Json(Json::Number(number)) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => query.bind(number),
            (_, Some(number)) => query.bind(number),
            _ => query.bind(number.as_f64()),
        },
        Bound::Json(json) => query.bind(json.to_string()),
        Bound::Payload(payload) => query.bind(text_of(&payload).map_err(|why| value.unfit(why))?.to_owned()),
    })
}

fn fault(error: &sqlx::Error, about: &str) -> Fault {
    let (Some(number), Some(database)) = (number(error), error.as_database_error()) else {
        return Fault::Outage(format!("{about}: {error}"));
    };
    let (state, message) = (database.code().unwrap_or_default(), database.message());
    judge(number, &state, message, about)
}

/// By number, and by state where that says enough. Of what the server says of a value only the place is repeated.
fn judge(number: u16, state: &str, message: &str, about: &str) -> Fault {
    let value =
        || Fault::Value(format!("{about}: a value is not what it should be{} ({number})", place(message)));
    let refused = || Fault::Refused(format!("{about}: a constraint objects{} ({number})", place(message)));
    let outage = || Fault::Outage(format!("{about}: {message}"));
    match number {
        1213 => Fault::Conflict(format!("{about}: {message}")),
        // A lock that somebody else has for too long; more time than the server gives. It can be the doing of this one
        // message, and as an outage it would stop all others for ever.
        1205 | 3572 | 1969 | 3024 => Fault::Refused(format!("{about}: {message}")),
        // Cut off, out of range, no value of the type, too long, no JSON.
        1264 | 1265 | 1292 | 1366 | 1367 | 1406 | 1411 | 1690 | 3140 | 3141 | 3156 | 4078 => value(),
        // Null, duplicate, no default, foreign keys, checks.
        1048 | 1062 | 1169 | 1216 | 1217 | 1364 | 1451 | 1452 | 1557 | 3819 | 4025 => refused(),
        // The sentence of whoever wrote the trigger or procedure.
        1644 => Fault::Refused(format!("{about}: {message}")),
        _ => match state.get(..2) {
            Some("22") => value(),
            Some("23") => refused(),
            // Missing, denied or misspelt; no connection, space or memory; shutting down; read-only.
            _ => outage(),
        },
    }
}

/// The column or key that a message names, which it does at its very end. What stands before it may be the value.
fn place(message: &str) -> String {
    let column = message.rsplit_once(" at row ").and_then(|(before, _)| before.rsplit_once(" for column "));
    let key = || message.rsplit_once(" for key ").filter(|_| message.starts_with("Duplicate entry "));
    let is_name = |c: char| c.is_alphanumeric() || "_$-.'` ".contains(c);
    match column.or_else(key) {
        Some((_, name)) if name.len() <= 200 && name.chars().all(is_name) => format!(", for {name}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_tell_whose_fault_it_is_and_no_value_is_repeated() {
        let duplicate = "Duplicate entry 's3cret' for key 'PRIMARY'";
        let number = "Incorrect integer value: 's3cret for column x' for column `t`.`qty` at row 1";
        for (code, state, message, expected) in [
            (1062, "23000", duplicate, "Refused(\"s: a constraint objects, for 'PRIMARY' (1062)\")"),
            (1366, "HY000", number, "Value(\"s: a value is not what it should be, for `t`.`qty` (1366)\")"),
            (1213, "40001", "Deadlock found", "Conflict(\"s: Deadlock found\")"),
            (1205, "HY000", "Lock wait timeout", "Refused(\"s: Lock wait timeout\")"),
            (3572, "HY000", "Lock not available", "Refused(\"s: Lock not available\")"),
            (1969, "70100", "Query interrupted", "Refused(\"s: Query interrupted\")"),
            (3024, "HY000", "Query interrupted", "Refused(\"s: Query interrupted\")"),
            (1146, "42S02", "Table 'a.b' doesn't exist", "Outage(\"s: Table 'a.b' doesn't exist\")"),
            (1142, "42000", "INSERT command denied", "Outage(\"s: INSERT command denied\")"),
            (1040, "08004", "Too many connections", "Outage(\"s: Too many connections\")"),
            (3999, "22007", "bad 's3cret'", "Value(\"s: a value is not what it should be (3999)\")"),
        ] {
            assert_eq!(format!("{:?}", judge(code, state, message, "s")), expected);
        }
    }
}

//! Statements run for each message: the handler that is written in SQL.
//!
//! The server says once what type each value of a statement has; from then on every value goes there as text and is
//! cast to that type by the server, so that a text fits a uuid, a number an integer, a payload a jsonb.

mod fault;
mod learn;

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres};

use super::error::classify;
use super::examine::look;
use super::inbox::Inbox;
use crate::error::Result;
use crate::finding::Finding;
use crate::inbox::Failure;
use crate::message::Message;
use crate::sink::{Cause, Outcome, Sink, code};
use crate::sql::{Again, Bound, Fault, Kind, Statement, Statements, Value, finding, text_of};
use crate::view::View;
use learn::{Learned, Learner, Type};

impl Inbox {
    /// A sink that runs statements once per message, in one transaction with the inbox. [`crate::sql`] tells the values
    /// and the outcomes.
    ///
    /// A value takes the type that its place in the statement asks for; where nothing does (`f(:key)`, a `CALL`), write
    /// a cast: `:key::text`.
    pub fn sql(&self, consumer: &str, statements: Statements) -> Result<impl Sink + use<>> {
        statements.check(Kind::Postgres)?;
        let timeout = statements.timeout;
        let learner = Arc::new(Learner::new(self.pool().clone(), statements));
        let shared = learner.clone();
        let handler = self.handler(consumer, move |mut tx, message: Message| {
            let learner = shared.clone();
            async move { run(&mut tx, &learner, &message).await }
        });
        let handler = match timeout {
            Some(timeout) => handler.timeout(timeout),
            None => handler,
        };
        Ok(SqlSink { learner, handler: Again(handler) })
    }
}

/// Asks the database to prepare each statement, and runs none.
pub async fn examine_statements(pool: &PgPool, statements: &Statements) -> Vec<Finding> {
    let mut findings = Vec::new();
    for statement in &statements.all {
        findings.push(finding(statement.number, is_understood(pool, statement).await));
    }
    findings
}

/// In a transaction of its own, which a statement that is not understood spoils.
async fn is_understood(pool: &PgPool, statement: &Statement) -> Result<bool> {
    let failed = |error| classify(error, "looking at the statements");
    let mut conn = pool.acquire().await.map_err(failed)?;
    let mut tx = look(&mut conn).await.map_err(failed)?;
    let understood = learn::is_understood(&mut tx, statement).await;
    tx.rollback().await.map_err(failed)?;
    understood
}

struct SqlSink<H> {
    learner: Arc<Learner>,
    handler: Again<H>,
}

#[async_trait]
impl<H: Sink> Sink for SqlSink<H> {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        if let Err(error) = self.learner.learn().await {
            let cause = Cause::new(code::UNREACHABLE, error.chain());
            return vec![Outcome::Unavailable(cause); messages.len()];
        }
        let mut outcomes = self.handler.deliver(messages).await;
        // Whatever is missing may come back as something else.
        if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unavailable(_))) {
            self.learner.forget();
        }
        // A column may have got another type since; then the value was not at fault, but what we know of it.
        if outcomes.iter().any(is_unfit) && self.learner.has_changed().await {
            let cause = Cause::new(code::UNREACHABLE, "the types of the columns have changed");
            for outcome in outcomes.iter_mut().filter(|outcome| is_unfit(outcome)) {
                *outcome = Outcome::Unavailable(cause.clone());
            }
        }
        outcomes
    }
}

fn is_unfit(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Rejected(rejection) if rejection.cause.code == code::UNFIT)
}

async fn run(conn: &mut PgConnection, learner: &Learner, message: &Message) -> Result<(), Failure> {
    let Some(learned) = learner.learned() else {
        return Err(Failure::unavailable("the types of the statements are not known"));
    };
    let view = View::new(message);
    for (statement, learned) in learner.statements().iter().zip(learned.iter()) {
        let params = params(statement, learned, &view)?;
        let ran = query(&learned.text, &params).execute(&mut *conn).await;
        if let Err(error) = ran {
            let fault = fault::of(&error, &statement.about());
            if let Fault::Value(_) = fault
                && let Some(value) = culprit(conn, statement, learned, &params).await
            {
                return Err(value);
            }
            return Err(fault.into());
        }
    }
    Ok(())
}

/// What goes to the server.
enum Param {
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
}

fn query<'q>(text: &'q str, params: &'q [Param]) -> Query<'q, Postgres, PgArguments> {
    let mut query = sqlx::query(AssertSqlSafe(text)).persistent(false);
    for param in params {
        query = bind(query, param);
    }
    query
}

fn bind<'q>(query: Query<'q, Postgres, PgArguments>, param: &'q Param) -> Query<'q, Postgres, PgArguments> {
    match param {
        Param::Text(text) => query.bind(text.as_deref()),
        Param::Bytes(bytes) => query.bind(bytes.as_deref()),
    }
}

fn params(statement: &Statement, learned: &Learned, view: &View<'_>) -> Result<Vec<Param>, Failure> {
    let bound = statement.bind(view)?;
    let each = statement.values.iter().zip(bound).zip(&learned.types);
    each.map(|((value, bound), kind)| param(value, bound, kind)).collect()
}

/// The value in the form that the type can be read from.
fn param(value: &Value, bound: Bound, kind: &Type) -> Result<Param, Failure> {
    let is_bytes = matches!(kind, Type::Bytes);
    if let (Bound::Payload(payload), true) = (&bound, is_bytes) {
        return Ok(Param::Bytes(Some(payload.to_vec())));
    }
    let text = match bound {
        Bound::Null if is_bytes => return Ok(Param::Bytes(None)),
        Bound::Null => return Ok(Param::Text(None)),
        Bound::Payload(payload) => text_of(&payload).map_err(|why| value.unfit(why))?.to_owned(),
        // In a JSON column a text is a JSON string.
        Bound::Text(text) if matches!(kind, Type::Json(_)) => serde_json::Value::from(text).to_string(),
        Bound::Time(time) if matches!(kind, Type::Json(_)) => {
            serde_json::Value::from(time.to_string()).to_string()
        }
        Bound::Json(json) if matches!(kind, Type::Json(_)) => json.to_string(),
        Bound::Text(text) | Bound::Json(serde_json::Value::String(text)) => text,
        Bound::Int(number) => number.to_string(),
        Bound::Time(time) => time.to_string(),
        Bound::Json(json) => json.to_string(),
    };
    if is_bytes {
        return Ok(Param::Bytes(Some(text.into_bytes())));
    }
    if text.contains('\0') {
        return Err(value.unfit("it has a NUL character, which PostgreSQL does not take"));
    }
    Ok(Param::Text(Some(text)))
}

/// The server does not say which value it could not read; so each is tried alone, from where the message began.
async fn culprit(
    conn: &mut PgConnection,
    statement: &Statement,
    learned: &Learned,
    params: &[Param],
) -> Option<Failure> {
    for ((value, kind), param) in statement.values.iter().zip(&learned.types).zip(params) {
        sqlx::raw_sql("rollback to savepoint outbox_message").execute(&mut *conn).await.ok()?;
        let probe = format!("select {} is null", kind.cast(1));
        let tried =
            bind(sqlx::query(AssertSqlSafe(probe)).persistent(false), param).execute(&mut *conn).await;
        if let Err(error) = tried
            && let Fault::Value(_) = fault::of(&error, "")
        {
            return Some(value.unread(format_args!("it cannot be read as {kind}")));
        }
    }
    None
}

//! Who did what, the newest first.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outbox::audit::{Entry, Filter};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::book::no_table;
use super::messages::limit;
use super::{Office, check_id};
use crate::quantity::parse_duration;
use crate::trouble::{Exit, Trouble};

/// Which entries to list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditRequest {
    /// Done by this person.
    pub by: Option<String>,
    /// This action, as in `dlq.retry`.
    pub action: Option<String>,
    /// To this message.
    pub id: Option<String>,
    /// Longer ago than this, as in `2h`.
    pub older_than: Option<String>,
    /// Within this time, as in `30m`.
    pub newer_than: Option<String>,
    /// At most so many; 100 by default.
    #[param(minimum = 1, maximum = 10_000)]
    pub limit: Option<u32>,
    /// Before this number, to page on.
    pub before: Option<u64>,
}

/// A page of the book.
#[derive(Debug, Serialize, ToSchema)]
pub struct Entries {
    /// The newest first.
    pub entries: Vec<AuditEntry>,
    /// What to give as `before` for the next page; none if this is the last.
    pub next: Option<u64>,
}

/// One thing that somebody did.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditEntry {
    /// Its place in the book.
    pub number: u64,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Who.
    pub by: String,
    /// What, in a word.
    pub action: String,
    /// To what: the name of a queue, topic, source or table.
    pub target: String,
    /// To which message; none if it was about many.
    pub id: Option<String>,
    /// What else there is to say.
    pub detail: Value,
}

impl From<&Entry> for AuditEntry {
    fn from(entry: &Entry) -> Self {
        let detail = entry.detail.as_deref().unwrap_or("null");
        Self {
            number: entry.seq,
            at: entry.at,
            by: entry.who.clone(),
            action: entry.action.clone(),
            target: entry.target.clone(),
            id: entry.message_id.as_ref().map(ToString::to_string),
            detail: serde_json::from_str(detail).unwrap_or_else(|_| json!(entry.detail)),
        }
    }
}

/// Lists entries of the book.
pub async fn audit(office: &Office, request: &AuditRequest) -> Result<Entries, Trouble> {
    let (filter, most) = (filter(request)?, limit(request.limit)?);
    let Some(audit) = &office.plan.audit else {
        let help = "name the database: [audit] with on = \"connection\"";
        return Err(Trouble::new(Exit::Config, "nobody writes down repairs here", help));
    };
    let doing = "cannot read who did what";
    let listed = async {
        let listed = async { office.databases.audit(&audit.connection).await?.list(&filter).await };
        listed.await.map_err(|error| no_table(doing, &audit.connection, &error))
    };
    let entries = office.look(doing, listed).await?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let next = entries.last().filter(|_| entries.len() >= most).map(|last| last.seq);
    Ok(Entries { entries: entries.iter().map(Into::into).collect(), next })
}

fn filter(request: &AuditRequest) -> Result<Filter, Trouble> {
    for text in [&request.by, &request.action, &request.id].into_iter().flatten() {
        check_id(text)?;
    }
    let now = Timestamp::now();
    // Longer than there is time: since ever.
    let ago = |time: Duration| {
        let span = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        now.checked_sub(span).unwrap_or(Timestamp::MIN)
    };
    let time = |name: &str, text: &Option<String>| {
        let parsed = text.as_deref().map(parse_duration).transpose();
        let parsed = parsed.map_err(|rule| Trouble::usage(format!("{name}: {rule}"), "write it as in 2h"))?;
        Ok(parsed.map(ago))
    };
    Ok(Filter {
        who: request.by.clone(),
        action: request.action.clone(),
        message_id: request.id.as_deref().map(Into::into),
        older_than: time("older_than", &request.older_than)?,
        newer_than: time("newer_than", &request.newer_than)?,
        // What a database cannot count is beyond its last entry.
        before: request.before.map(|before| before.min(i64::MAX.unsigned_abs())),
        limit: limit(request.limit)?,
        ..Filter::default()
    })
}

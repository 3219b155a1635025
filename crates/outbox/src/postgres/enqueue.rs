//! Writing messages, in the caller's transaction.

use sqlx::{AssertSqlSafe, PgConnection};
use uuid::Uuid;

use super::Outbox;
use super::error::classify;
use super::row::At;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, MessageId, headers_to_json};

const ENQUEUE: &str = "
    insert into outbox.messages (id, type, key, payload, content_type, headers, occurred_at)
    select id, type, key, payload, content_type, headers::jsonb, occurred_at
    from unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::timestamptz[])
        with ordinality as new (id, type, key, payload, content_type, headers, occurred_at, place)
    order by place";

/// The same, where an id that is there already is the same message.
const KEEP: &str = " on conflict (id) do nothing";

impl Outbox {
    /// Writes a message in the caller's transaction: it exists if and only if that commits.
    pub async fn enqueue(&self, connection: &mut PgConnection, message: Message) -> Result<MessageId> {
        self.enqueue_all(connection, std::slice::from_ref(&message)).await?;
        Ok(message.id)
    }

    /// Writes messages in the caller's transaction, in one statement and in this order.
    pub async fn enqueue_all(&self, connection: &mut PgConnection, messages: &[Message]) -> Result<()> {
        self.insert(connection, messages, ENQUEUE.to_owned()).await
    }

    /// The same; an id that is there already is passed over.
    pub(super) async fn enqueue_new(
        &self,
        connection: &mut PgConnection,
        messages: &[Message],
    ) -> Result<()> {
        self.insert(connection, messages, format!("{ENQUEUE}{KEEP}")).await
    }

    async fn insert(
        &self,
        connection: &mut PgConnection,
        messages: &[Message],
        statement: String,
    ) -> Result<()> {
        let mut ids = Vec::with_capacity(messages.len());
        for message in messages {
            self.limits.check(message)?;
            ids.push(uuid(message)?);
        }
        let each = |of: fn(&Message) -> &str| messages.iter().map(of).collect::<Vec<_>>();
        sqlx::query(AssertSqlSafe(statement))
            .bind(ids)
            .bind(each(|message| &message.kind))
            .bind(messages.iter().map(|message| message.key.as_deref()).collect::<Vec<_>>())
            .bind(messages.iter().map(|message| &*message.payload).collect::<Vec<_>>())
            .bind(each(|message| &message.content_type))
            .bind(messages.iter().map(|message| headers_to_json(&message.headers)).collect::<Vec<_>>())
            .bind(messages.iter().map(|message| At(message.occurred_at)).collect::<Vec<_>>())
            // Unnamed: behind a pooler the next statement may meet another server, where a name is unknown or taken.
            .persistent(false)
            .execute(connection)
            .await
            .map_err(|error| classify(error, "writing to the outbox"))?;
        Ok(())
    }
}

/// The id as the log keeps it.
pub(super) fn uuid(message: &Message) -> Result<Uuid> {
    Uuid::parse_str(message.id.as_str()).map_err(|error| {
        let what = format!("the id '{}' is not a UUID, which the outbox needs", message.id);
        Error::new(ErrorKind::Invalid, what).caused_by(error)
    })
}

//! Writes tickets as TicketFlow's API does: the ticket and its event in one transaction. It knows nothing of outboxd.
//!
//!     cargo run --example ticketflow-adr-producer -- postgres://postgres:postgres@localhost/ticketflow 3
//!
//! Every ticket has three events: it is created, assigned, and its status changes.

use anyhow::Context;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

/// A ticket was created.
pub const CREATED: &str = "ticket.created";
/// Somebody is to see to it.
pub const ASSIGNED: &str = "ticket.assigned";
/// A ticket is in another status.
pub const STATUS_CHANGED: &str = "ticket.status.changed";

/// A ticket, and who hears of it.
#[derive(Debug, Clone)]
pub struct Ticket {
    /// "Id"
    pub id: Uuid,
    /// "Title"
    pub title: String,
    /// Who gets the letters.
    pub notify: String,
    /// Binds the events of one request together.
    pub correlation: String,
}

impl Ticket {
    /// A ticket that is not saved yet.
    pub fn new(title: &str, notify: &str) -> Self {
        let (id, correlation) = (Uuid::new_v4(), Uuid::new_v4().simple().to_string());
        Self { id, title: title.to_owned(), notify: notify.to_owned(), correlation }
    }

    /// Saves it with its event; both rows are committed, or neither. Gives the event's id.
    pub async fn create(&self, database: &mut PgConnection) -> anyhow::Result<Uuid> {
        let mut tx = database.begin().await?;
        sqlx::query(
            r#"INSERT INTO "Tickets" ("Id", "Title", "Status", "CreatedAt") VALUES ($1, $2, 'open', now())"#,
        )
        .bind(self.id)
        .bind(&self.title)
        .execute(&mut *tx)
        .await
        .context("cannot write to \"Tickets\"; was schema.sql run?")?;
        let event = self.save_event(&mut tx, CREATED, "open").await?;
        tx.commit().await?;
        Ok(event)
    }

    /// Gives it to somebody; both rows are committed, or neither.
    pub async fn assign(&self, database: &mut PgConnection, to: &str) -> anyhow::Result<Uuid> {
        let mut tx = database.begin().await?;
        let update = sqlx::query(r#"UPDATE "Tickets" SET "AssignedTo" = $2 WHERE "Id" = $1"#);
        update.bind(self.id).bind(to).execute(&mut *tx).await?;
        let event = self.save_event(&mut tx, ASSIGNED, "assigned").await?;
        tx.commit().await?;
        Ok(event)
    }

    /// Changes its status; both rows are committed, or neither.
    pub async fn change_status(&self, database: &mut PgConnection, status: &str) -> anyhow::Result<Uuid> {
        let mut tx = database.begin().await?;
        let update = sqlx::query(r#"UPDATE "Tickets" SET "Status" = $2 WHERE "Id" = $1"#);
        update.bind(self.id).bind(status).execute(&mut *tx).await?;
        let event = self.save_event(&mut tx, STATUS_CHANGED, status).await?;
        tx.commit().await?;
        Ok(event)
    }

    /// Saves an event, in the caller's transaction.
    pub async fn save_event(
        &self,
        database: &mut PgConnection,
        kind: &str,
        status: &str,
    ) -> anyhow::Result<Uuid> {
        let id = Uuid::new_v4();
        let payload = json!({
            "ticketId": self.id.to_string(), "title": self.title, "status": status, "notify": self.notify,
        });
        // The time of the event and not of the transaction: two events of one transaction have an order.
        sqlx::query(
            r#"INSERT INTO "Outbox" ("Id", "Type", "PayloadJson", "CorrelationId", "OccurredAt")
               VALUES ($1, $2, $3, $4, clock_timestamp())"#,
        )
        .bind(id)
        .bind(kind)
        .bind(payload.to_string())
        .bind(&self.correlation)
        .execute(database)
        .await
        .context("cannot write to \"Outbox\"; was schema.sql run?")?;
        Ok(id)
    }
}

#[tokio::main]
#[allow(clippy::print_stdout, reason = "it is for a terminal")]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let url = args.next().context("usage: ticketflow-adr-producer <postgres-url> [tickets]")?;
    let count = args.next().map_or(Ok(3), |count| count.parse::<u32>()).context("the count is no number")?;
    let mut database = PgConnection::connect(&url).await.context("cannot connect to PostgreSQL")?;
    for number in 1..=count {
        let ticket = Ticket::new(&format!("Ticket {number}"), "ana@ticketflow.example");
        let events = [
            ticket.create(&mut database).await?,
            ticket.assign(&mut database, "ana").await?,
            ticket.change_status(&mut database, "in progress").await?,
        ];
        for (event, kind) in events.iter().zip([CREATED, ASSIGNED, STATUS_CHANGED]) {
            println!("{event} {kind}");
        }
    }
    Ok(database.close().await?)
}

//! Writes tickets as TicketFlow does: the ticket and its event in one transaction. It knows nothing of outboxd.
//!
//!     cargo run --example ticketflow-producer -- postgres://postgres@localhost/ticketflow 25
//!
//! Every ticket has two events: it is created, then its status changes.

use jiff::Timestamp;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

/// A ticket was created.
pub const CREATED: &str = "TicketFlow.Domain.Events.TicketCreatedEvent";
/// A ticket is in another status.
pub const STATUS_CHANGED: &str = "TicketFlow.Domain.Events.TicketStatusChangedEvent";

const INSERT_EVENT: &str = r#"
    insert into "OutboxMessages" ("Id", "Type", "PayloadJson", "CorrelationId", "OccurredAt")
    values ($1, $2, $3, $4, $5::timestamptz)"#;

/// A row of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// "Id"
    pub id: Uuid,
    /// "Type"
    pub kind: &'static str,
    /// "PayloadJson"
    pub payload: String,
    /// "CorrelationId"
    pub correlation: String,
    /// "OccurredAt"
    pub occurred_at: Timestamp,
}

/// Creates a ticket; both rows are committed, or neither.
pub async fn create(database: &mut PgConnection, title: &str) -> sqlx::Result<(Uuid, Event)> {
    let ticket = Uuid::new_v4();
    let event = Event::new(CREATED, json!({ "ticketId": ticket.to_string(), "title": title }).to_string());
    let mut tx = database.begin().await?;
    sqlx::query(
        r#"insert into "Tickets" ("Id", "Title", "Status", "CreatedAt") values ($1, $2, 'Open', now())"#,
    )
    .bind(ticket)
    .bind(title)
    .execute(&mut *tx)
    .await?;
    event.insert(&mut tx).await?;
    tx.commit().await?;
    Ok((ticket, event))
}

/// Changes the status of a ticket; both rows are committed, or neither.
pub async fn change_status(database: &mut PgConnection, ticket: Uuid, status: &str) -> sqlx::Result<Event> {
    let event =
        Event::new(STATUS_CHANGED, json!({ "ticketId": ticket.to_string(), "status": status }).to_string());
    let mut tx = database.begin().await?;
    sqlx::query(r#"update "Tickets" set "Status" = $2 where "Id" = $1"#)
        .bind(ticket)
        .bind(status)
        .execute(&mut *tx)
        .await?;
    event.insert(&mut tx).await?;
    tx.commit().await?;
    Ok(event)
}

impl Event {
    /// An event that happens now.
    pub fn new(kind: &'static str, payload: String) -> Self {
        let (id, correlation) = (Uuid::new_v4(), Uuid::new_v4().simple().to_string());
        Self { id, kind, payload, correlation, occurred_at: Timestamp::now() }
    }

    /// Writes it, in the caller's transaction.
    pub async fn insert(&self, database: &mut PgConnection) -> sqlx::Result<()> {
        let insert = sqlx::query(INSERT_EVENT).bind(self.id).bind(self.kind).bind(&self.payload);
        insert.bind(&self.correlation).bind(self.occurred_at.to_string()).execute(database).await?;
        Ok(())
    }
}

#[tokio::main]
#[allow(clippy::print_stdout, reason = "it is for a terminal")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(url) = arguments.next() else {
        anyhow::bail!("usage: ticketflow-producer POSTGRES_URL [TICKETS]");
    };
    let tickets = arguments.next().unwrap_or_else(|| "10".to_owned());
    let Ok(tickets) = tickets.parse::<u32>() else {
        anyhow::bail!("'{tickets}' is no number of tickets");
    };
    let mut database = PgConnection::connect(&url).await?;
    for number in 1..=tickets {
        let (ticket, created) = create(&mut database, &format!("Ticket {number}")).await?;
        let changed = change_status(&mut database, ticket, "InProgress").await?;
        println!("{} {}\n{} {}", created.id, created.kind, changed.id, changed.kind);
    }
    Ok(database.close().await?)
}

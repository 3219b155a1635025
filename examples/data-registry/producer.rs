//! Writes as the application does: the result of a match and its event in one transaction.
//!
//! `cargo run --example data-registry-producer -- <postgres-url> [count]`
#![allow(clippy::print_stdout, reason = "an example is there to be read on a screen")]

use anyhow::Context;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

/// The topic of the events.
pub const TOPIC: &str = "match.registered";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let url = args.next().context("usage: data-registry-producer <postgres-url> [count]")?;
    let count = args.next().map_or(Ok(10), |count| count.parse()).context("the count is no number")?;
    let mut connection = PgConnection::connect(&url).await.context("cannot connect to PostgreSQL")?;
    let written = register(&mut connection, TOPIC, count).await?;
    println!("{} events written for the topic {TOPIC}", written.len());
    Ok(())
}

/// Registers so many matches, one transaction each; gives the ids of their events.
pub async fn register(
    connection: &mut PgConnection,
    topic: &str,
    count: usize,
) -> anyhow::Result<Vec<String>> {
    let mut ids = Vec::new();
    for number in 0..count {
        let mut tx = connection.begin().await?;
        // The application's own rows would be written here, on `tx`.
        let payload = json!({ "matchId": format!("match-{number}"), "home": 2, "away": number % 5 });
        ids.push(save_event(&mut tx, topic, &payload).await?);
        tx.commit().await?;
    }
    Ok(ids)
}

/// What Prisma's client does for `prisma.outbox.create`: the id is made here, and the time is UTC without a zone.
pub async fn save_event(
    connection: &mut PgConnection,
    topic: &str,
    payload: &serde_json::Value,
) -> anyhow::Result<String> {
    let id = Uuid::new_v4().to_string();
    sqlx::query(
        r#"INSERT INTO "Outbox" ("id", "topic", "payload", "createdAt")
           VALUES ($1, $2, $3::jsonb, clock_timestamp() AT TIME ZONE 'UTC')"#,
    )
    .bind(&id)
    .bind(topic)
    .bind(payload.to_string())
    .execute(connection)
    .await
    .context("cannot write to \"Outbox\"; was schema.sql run?")?;
    Ok(id)
}

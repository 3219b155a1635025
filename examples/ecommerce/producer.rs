//! Writes as the application does: an order and its events in one transaction.
//!
//! `cargo run --example ecommerce-producer -- <postgres-url> [count] [--partitions]`
#![allow(clippy::print_stdout, reason = "an example is there to be read on a screen")]

use anyhow::Context;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use uuid::Uuid;

/// How many tables a partitioned outbox has.
const PARTITIONS: u128 = 4;

/// Where events are saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outbox {
    /// In `OutboxEvents`.
    Single,
    /// In `OutboxEvents_Partition_N`, by hash of the order's id.
    Partitioned,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (flags, args): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
    let outbox = match flags.as_slice() {
        [] => Outbox::Single,
        [flag] if flag == "--partitions" => Outbox::Partitioned,
        _ => anyhow::bail!("the only flag is --partitions"),
    };
    let mut args = args.into_iter();
    let url = args.next().context("usage: ecommerce-producer <postgres-url> [count] [--partitions]")?;
    let count = args.next().map_or(Ok(10), |count| count.parse()).context("the count is no number")?;
    let mut connection = PgConnection::connect(&url).await.context("cannot connect to PostgreSQL")?;
    for _ in 0..count {
        create_order(&mut connection, outbox).await?;
    }
    println!("{count} orders written, each with its OrderCreated");
    Ok(())
}

/// Saves an order and its `OrderCreated`, both or none; gives the order's id.
pub async fn create_order(connection: &mut PgConnection, outbox: Outbox) -> anyhow::Result<Uuid> {
    let (order, customer) = (Uuid::new_v4(), Uuid::new_v4());
    let mut tx = connection.begin().await?;
    sqlx::query(
        r#"INSERT INTO "Orders" ("Id", "CustomerId", "TotalAmount", "Status", "CreatedAt")
           VALUES ($1, $2, 99.95, 'Created', clock_timestamp())"#,
    )
    .bind(order)
    .bind(customer)
    .execute(&mut *tx)
    .await
    .context("cannot write to \"Orders\"; was schema.sql run?")?;
    let data =
        json!({ "OrderId": order.to_string(), "CustomerId": customer.to_string(), "TotalAmount": 99.95 });
    save_event(&mut tx, outbox, order, "OrderCreated", &data).await?;
    tx.commit().await?;
    Ok(order)
}

/// Saves one event of an order, in the caller's transaction; gives the event's id.
pub async fn save_event(
    connection: &mut PgConnection,
    outbox: Outbox,
    order: Uuid,
    event_type: &str,
    data: &serde_json::Value,
) -> anyhow::Result<Uuid> {
    let table = match outbox {
        Outbox::Single => "OutboxEvents".to_owned(),
        Outbox::Partitioned => format!("OutboxEvents_Partition_{}", partition(order)),
    };
    let id = Uuid::new_v4();
    // The time of the event and not of the transaction: two events of one transaction have an order.
    sqlx::query(AssertSqlSafe(format!(
        r#"INSERT INTO "{table}" ("Id", "EventType", "EventData", "CreatedAt")
           VALUES ($1, $2, $3::jsonb, clock_timestamp())"#
    )))
    .bind(id)
    .bind(event_type)
    .bind(data.to_string())
    .execute(connection)
    .await
    .with_context(|| format!("cannot write to \"{table}\"; was schema.sql run?"))?;
    Ok(id)
}

/// The same for an order wherever it is computed: a hash that differs from one process to the next would spread the
/// events of an order over several tables, and with that lose their order.
pub fn partition(order: Uuid) -> u128 {
    order.as_u128() % PARTITIONS
}

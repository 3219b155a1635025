//! A shop on SQLite: orders and their events are written together, and a handler ships each order once.
//!
//! Run it with `cargo run -p outbox --example shop --features sqlite`. It needs no server and ends by itself.
#![allow(clippy::print_stdout, reason = "an example is there to be read on a screen")]

use std::error::Error;
use std::time::Duration;

use outbox::sqlite::Outbox;
use outbox::{Failure, Lent, Message, Pipe};
use serde_json::json;
use sqlx::{Sqlite, Transaction};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let outbox = Outbox::connect(&format!("sqlite:{}/shop.db", folder.path().display())).await?;
    outbox.migrate().await?;
    sqlx::raw_sql("CREATE TABLE orders (id INTEGER PRIMARY KEY); CREATE TABLE shipments (order_id INTEGER)")
        .execute(outbox.pool())
        .await?;

    for id in 1..=3 {
        place_order(&outbox, id, true).await?;
    }
    // This order is given up before the commit, and so is its event: nobody will ever see it.
    place_order(&outbox, 4, false).await?;

    // The inbox and the effect share one transaction, so an order that is delivered twice is shipped once.
    let handler = outbox.inbox().handler("shipping", ship);
    let pipe = Pipe::new(outbox.cursor("shipping"), handler).name("shipping");
    let (stats, stop) = (pipe.stats(), CancellationToken::new());
    let running = tokio::spawn(pipe.run(stop.clone()));
    while stats.delivered() < 3 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // A stop finishes what is in flight and gives the cursor back.
    stop.cancel();
    running.await??;

    let shipped: Vec<i64> = sqlx::query_scalar("SELECT order_id FROM shipments ORDER BY order_id")
        .fetch_all(outbox.pool())
        .await?;
    println!("orders shipped: {shipped:?}; attempts that failed: {}", stats.retried());
    assert_eq!(shipped, [1, 2, 3]);
    Ok(())
}

/// Writes an order and its event in one transaction: both are there after the commit, or neither.
async fn place_order(outbox: &Outbox, id: i64, commit: bool) -> Result<(), Box<dyn Error>> {
    let mut tx = outbox.pool().begin().await?;
    sqlx::query("INSERT INTO orders (id) VALUES (?)").bind(id).execute(&mut *tx).await?;
    let event = Message::json("order.placed", &json!({ "id": id }))?.key(format!("order-{id}"));
    outbox.enqueue(&mut tx, event).await?;
    if commit {
        tx.commit().await?;
    } else {
        tx.rollback().await?;
    }
    Ok(())
}

/// Ships an order. What it writes is committed together with the id in the inbox, or not at all.
async fn ship(mut tx: Lent<Transaction<'static, Sqlite>>, message: Message) -> Result<(), Failure> {
    let order: serde_json::Value = serde_json::from_slice(&message.payload)?;
    sqlx::query("INSERT INTO shipments (order_id) VALUES (?)")
        .bind(order["id"].as_i64())
        .execute(&mut *tx)
        .await?;
    // The first attempt for order 2 fails after it has written: that shipment is undone, and it is tried again.
    if order["id"] == 2 && message.attempts == 0 {
        return Err(Failure::retry_after("the parcel service is closed", Duration::from_millis(50)));
    }
    Ok(())
}

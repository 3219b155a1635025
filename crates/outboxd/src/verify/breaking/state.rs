//! Faults of what servers hold: bindings, transactions, space, columns.

use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::Scene;
use crate::verify::ledger::End;
use crate::verify::log::Log;

/// Between attempts to mend.
const AGAIN: Duration = Duration::from_millis(100);

/// A table that others use is not always to be had within a second.
const ATTEMPTS: u32 = 5;

/// No queue is bound for anything.
pub(super) async fn unbind(scene: &Scene, lasts: Duration) -> anyhow::Result<()> {
    scene.rabbitmq.as_ref().context("there is no RabbitMQ")?.unbind(lasts).await
}

/// A transaction is open while others commit, and commits after them.
pub(super) async fn transaction(scene: &Scene, lasts: Duration) -> anyhow::Result<()> {
    let end = scene.producers.long(lasts).await;
    ensure!(end == End::Committed, "it was not committed");
    Ok(())
}

/// No relay can write to a file.
pub(super) async fn disk(scene: &Scene, lasts: Duration) -> anyhow::Result<()> {
    let met = scene.relays.forbid_files();
    tokio::time::sleep(lasts).await;
    scene.relays.allow_files().await;
    ensure!(met > 0, "no relay was there to meet it");
    Ok(())
}

/// A column of the log has another name for a while. Nobody can write meanwhile either.
pub(super) async fn column(scene: &Scene, lasts: Duration) -> anyhow::Result<()> {
    let Log::Postgres(outbox) = &scene.log else { bail!("there is no PostgreSQL") };
    let mut forgiving = scene.relays.forgive();
    // Whoever waits for a lock keeps others waiting: not for long.
    let away =
        "set local lock_timeout = '1s'; alter table outbox.messages rename column payload to payload_away";
    let mut renamed = sqlx::raw_sql(away).execute(outbox.pool()).await;
    for _ in 0..ATTEMPTS {
        if renamed.is_ok() {
            break;
        }
        tokio::time::sleep(AGAIN).await;
        renamed = sqlx::raw_sql(away).execute(outbox.pool()).await;
    }
    // Also if nobody answered: it may have been done.
    forgiving.has_met = true;
    renamed.context("cannot rename a column")?;
    tokio::time::sleep(lasts).await;
    let back = "alter table outbox.messages rename column payload_away to payload";
    // Whatever else happens to the database meanwhile, this must not stay so.
    while let Err(error) = sqlx::raw_sql(back).execute(outbox.pool()).await {
        let is_back = error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("42703"));
        if is_back {
            break;
        }
        tokio::time::sleep(AGAIN).await;
    }
    // Pipes that have met it have ended for good, and said so: a person mends the table and restarts the relays. Those that
    // are started now have met nothing.
    drop(forgiving);
    scene.relays.restart().await
}

//! Tells the other instances that the pipes of this one live, in the database where repairs are written down.
//!
//! Nothing waits for it: a database that is away costs a beat, never a message.

use std::sync::Arc;
use std::time::Duration;

use outbox::ErrorKind;
use outbox::beats::{Beat, Beats, State};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Health;
use crate::backends::Databases;
use crate::connection::Connection;
use crate::plan::Plan;

/// A sign of life is given so often, and when a pipe changes.
const BEAT: Duration = Duration::from_secs(30);

/// A change is noticed so soon.
const LOOK: Duration = Duration::from_secs(1);

/// So long the database may take; at the end of the program less, for somebody waits.
const PATIENCE: Duration = Duration::from_secs(10);
const PARTING: Duration = Duration::from_secs(3);

/// So long those who are gone are remembered, and so many are forgotten at a time.
const KEEP: Duration = Duration::from_secs(24 * 3_600);
const STEP: u32 = 100;

/// What it takes to beat.
pub struct Heart {
    health: Arc<Health>,
    databases: Arc<Databases>,
    connection: Connection,
}

impl Heart {
    /// None, and said once, where there is no database for it.
    pub fn new(plan: &Plan, health: Arc<Health>, databases: Arc<Databases>) -> Option<Self> {
        let Some(audit) = &plan.audit else {
            tracing::info!(
                "other instances do not see this one: add [audit] with on = \"connection\" and run `outboxd migrate`"
            );
            return None;
        };
        Some(Self { health, databases, connection: audit.connection.clone() })
    }

    async fn table(&self) -> outbox::Result<Arc<dyn Beats>> {
        self.databases.beats(&self.connection).await
    }

    async fn write(&self, beats: &[Beat]) -> outbox::Result<()> {
        let written = async {
            let table = self.table().await?;
            table.beat(beats).await?;
            table.forget(KEEP, STEP).await.map(drop)
        };
        let silent = |_| Err(outbox::Error::new(ErrorKind::Timeout, "no answer"));
        timeout(PATIENCE, written).await.unwrap_or_else(silent)
    }

    async fn part(&self) -> outbox::Result<()> {
        let table = self.table().await?;
        table.beat(&self.health.beats()).await?;
        table.stopped(&self.health.instance).await
    }
}

/// What was last told, and when.
struct Told {
    at: Instant,
    states: Vec<State>,
}

/// Beats until the stop, and then says that it was the last time.
pub async fn beat(heart: Heart, stop: CancellationToken) {
    let (mut told, mut failing): (Option<Told>, bool) = (None, false);
    loop {
        let beats = heart.health.beats();
        let states: Vec<State> = beats.iter().map(|beat| beat.state).collect();
        if is_due(told.as_ref(), Instant::now(), &states) {
            let Some(written) = stop.run_until_cancelled(heart.write(&beats)).await else { break };
            match &written {
                Ok(()) if failing => tracing::info!("other instances see this one again"),
                Err(error) if !error.is_temporary() => return tell_never(&heart.connection, error),
                Err(error) if !failing => {
                    let (database, error) = (&heart.connection.name, error.chain());
                    tracing::warn!(
                        database,
                        error,
                        "other instances may take this one for offline; trying again"
                    );
                }
                Ok(()) | Err(_) => {}
            }
            failing = written.is_err();
            told = Some(Told { at: Instant::now(), states });
        }
        if stop.run_until_cancelled(sleep(LOOK)).await.is_none() {
            break;
        }
    }
    match timeout(PARTING, heart.part()).await {
        Ok(Ok(())) => {}
        _ => tracing::info!("could not say that this instance stops; it will be shown as offline"),
    }
}

/// At the start, when a pipe has changed, and every so often.
fn is_due(told: Option<&Told>, now: Instant, states: &[State]) -> bool {
    told.is_none_or(|told| told.states != states || now >= told.at + BEAT)
}

/// What only a person can mend: it is not worth a line every time.
fn tell_never(connection: &Connection, error: &outbox::Error) {
    let database = &connection.name;
    if error.kind() == ErrorKind::NotMigrated {
        tracing::info!(
            database,
            "other instances do not see this one: the database has no table for it; run `outboxd migrate`"
        );
    } else {
        let (error, help) = (error.chain(), error.advice());
        tracing::warn!(database, error, help, "other instances do not see this one");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d8_a_beat_is_due_at_the_start_at_a_change_and_every_30_s() {
        let now = Instant::now();
        let running = [State::Running, State::Running];
        assert!(is_due(None, now, &running));
        let told = Told { at: now, states: running.to_vec() };
        assert!(!is_due(Some(&told), now + Duration::from_secs(29), &running));
        assert!(is_due(Some(&told), now + Duration::from_secs(30), &running));
        assert!(is_due(Some(&told), now, &[State::Running, State::Waiting]));
    }
}

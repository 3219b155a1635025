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

/// A beat that the database did not take is tried again so soon: three that are missing make us offline.
const AGAIN: Duration = Duration::from_secs(3);

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

/// What was last told, when, and how long that will do.
struct Told {
    at: Instant,
    holds: Duration,
    states: Vec<State>,
}

/// How the last beat failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failing {
    /// It may pass.
    ForNow,
    /// Until a person mends it.
    UntilMended,
}

/// Beats until the stop, and then says that it was the last time.
pub async fn beat(heart: Heart, stop: CancellationToken) {
    let (mut told, mut failing): (Option<Told>, Option<Failing>) = (None, None);
    loop {
        let beats = heart.health.beats();
        let states: Vec<State> = beats.iter().map(|beat| beat.state).collect();
        if is_due(told.as_ref(), Instant::now(), &states) {
            let Some(written) = stop.run_until_cancelled(heart.write(&beats)).await else { break };
            let fails = how_it_failed(&written);
            if fails != failing {
                tell(&heart.connection, &written);
            }
            failing = fails;
            told = Some(Told { at: Instant::now(), holds: holds_for(fails), states });
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
    told.is_none_or(|told| told.states != states || now >= told.at + told.holds)
}

fn how_it_failed(written: &outbox::Result<()>) -> Option<Failing> {
    let error = written.as_ref().err()?;
    Some(if error.is_temporary() { Failing::ForNow } else { Failing::UntilMended })
}

/// When to beat next. What only a person can mend is tried no more often than a beat is due.
fn holds_for(failing: Option<Failing>) -> Duration {
    if failing == Some(Failing::ForNow) { AGAIN } else { BEAT }
}

/// Told when it changes, for it is not worth a line every time.
fn tell(connection: &Connection, written: &outbox::Result<()>) {
    let database = &connection.name;
    match written {
        Ok(()) => tracing::info!(database, "other instances see this one again"),
        Err(error) if error.is_temporary() => {
            let error = error.chain();
            tracing::warn!(database, error, "other instances may take this one for offline; trying again");
        }
        Err(error) if error.kind() == ErrorKind::NotMigrated => tracing::info!(
            database,
            "other instances do not see this one: the database has no table for it; run `outboxd migrate`"
        ),
        Err(error) => {
            let (error, help) = (error.chain(), error.advice());
            tracing::warn!(database, error, help, "other instances do not see this one; trying again");
        }
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
        let told = Told { at: now, holds: holds_for(None), states: running.to_vec() };
        assert!(!is_due(Some(&told), now + Duration::from_secs(29), &running));
        assert!(is_due(Some(&told), now + Duration::from_secs(30), &running));
        assert!(is_due(Some(&told), now, &[State::Running, State::Waiting]));
    }

    #[test]
    fn d8_a_beat_that_failed_is_tried_again_soon_and_one_that_a_person_must_mend_goes_on_to_be_tried() {
        let now = Instant::now();
        for (kind, seconds) in
            [(ErrorKind::Timeout, 3), (ErrorKind::NotMigrated, 30), (ErrorKind::Denied, 30)]
        {
            let failing = how_it_failed(&Err(outbox::Error::new(kind, "no")));
            let told = Told { at: now, holds: holds_for(failing), states: Vec::new() };
            assert!(!is_due(Some(&told), now + Duration::from_secs(seconds - 1), &[]), "{kind:?}");
            assert!(is_due(Some(&told), now + Duration::from_secs(seconds), &[]), "{kind:?}");
        }
        assert_eq!(how_it_failed(&Ok(())), None);
    }
}

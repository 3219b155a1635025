//! Which pipes are paused, as this process knows it: asked of the database again and again, followed by the pipes.
//!
//! A database that is away changes nothing: what was known last holds. So a pipe that was paused stays so, and one that
//! runs goes on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::{describe_gauge, gauge};
use outbox::ErrorKind;
use outbox::pauses::Pause;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::backends::Databases;
use crate::connection::Connection;
use crate::health::Health;
use crate::plan::Plan;

/// How often the database is asked.
const LOOK: Duration = Duration::from_secs(2);

/// How often it is asked for a table that only a person can make.
const SELDOM: Duration = Duration::from_secs(30);

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the pipes wait at the start to hear which of them are paused.
const FIRST: Duration = Duration::from_secs(4);

const PAUSED: &str = "outbox_pipe_paused";

/// Tells the recorder what the figure is.
pub fn describe() {
    describe_gauge!(PAUSED, "Whether somebody has paused the pipe");
}

/// Who paused a pipe, since when and why.
pub fn sentence(pause: &Pause) -> String {
    let note = pause.note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
    format!("paused by {} since {:.0}{note}", pause.by, pause.at)
}

type Known = BTreeMap<String, Pause>;

/// What is known of pauses, and how to hear of a change.
#[derive(Debug, Clone, Default)]
pub struct Pauses(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    known: watch::Sender<Known>,
    nudge: Notify,
}

impl Pauses {
    /// The pause of a pipe, if it has one.
    pub fn of(&self, pipe: &str) -> Option<Pause> {
        self.0.known.borrow().get(pipe).cloned()
    }

    /// Somebody in this process has changed something: it is asked for at once.
    pub fn nudge(&self) {
        self.0.nudge.notify_one();
    }

    /// Returns when the pipe is paused, with the pause.
    pub async fn until_paused(&self, pipe: &str) -> Pause {
        let mut known = self.0.known.subscribe();
        loop {
            if let Some(pause) = known.borrow_and_update().get(pipe) {
                return pause.clone();
            }
            // Whoever tells is this very value, so there always is one.
            let _ = known.changed().await;
        }
    }

    /// Returns when the pipe is not paused.
    pub async fn until_resumed(&self, pipe: &str) {
        let mut known = self.0.known.subscribe();
        let _ = known.wait_for(|known| !known.contains_key(pipe)).await;
    }

    /// Follows the database of the plan until the stop. Returns once the first answer is there, so that a pipe which was
    /// paused yesterday does not run for a moment; a database that is away is not waited for long.
    pub async fn follow(
        &self,
        plan: &Plan,
        databases: &Arc<Databases>,
        health: &Arc<Health>,
        stop: &CancellationToken,
    ) {
        self.tell(Known::new(), health);
        // Nobody can pause anything here, which is said to whoever tries.
        let Some(audit) = &plan.audit else { return };
        let (answer, answered) = oneshot::channel();
        let watcher = Watcher {
            pauses: self.clone(),
            databases: databases.clone(),
            connection: audit.connection.clone(),
            health: health.clone(),
        };
        tokio::spawn(watcher.watch(answer, stop.clone()));
        // Late, or an error that does not pass: it is not known in either case.
        let is_known = async { matches!(timeout(FIRST, answered).await, Ok(Ok(true))) };
        if stop.run_until_cancelled(is_known).await == Some(false) && !stop.is_cancelled() {
            let database = &audit.connection.name;
            tracing::warn!(database, "it cannot be told yet which pipes are paused: all begin");
        }
    }

    /// As if the database had told it.
    #[cfg(test)]
    pub fn put(&self, pauses: impl IntoIterator<Item = Pause>) {
        self.0.known.send_replace(pauses.into_iter().map(|pause| (pause.pipe.clone(), pause)).collect());
    }

    fn tell(&self, known: Known, health: &Health) {
        for pipe in health.pipes() {
            let pause = known.get(&pipe.name).cloned();
            let figure = gauge!(PAUSED, "source" => pipe.from.clone(), "pipe" => pipe.name.clone());
            figure.set(f64::from(u8::from(pause.is_some())));
            pipe.set_pause(pause);
        }
        self.0.known.send_if_modified(|before| {
            let has_changed = *before != known;
            *before = known;
            has_changed
        });
    }
}

/// Asks the database.
struct Watcher {
    pauses: Pauses,
    databases: Arc<Databases>,
    connection: Connection,
    health: Arc<Health>,
}

impl Watcher {
    /// The first answer tells whether it is known which pipes are paused; one that may come later is waited for.
    async fn watch(self, answer: oneshot::Sender<bool>, stop: CancellationToken) {
        let (mut failing, mut answer) = (false, Some(answer));
        loop {
            let Some(asked) = stop.run_until_cancelled(self.ask()).await else { return };
            let mut next = LOOK;
            let first = first_answer(&asked);
            match asked {
                Ok(known) => {
                    if failing {
                        tracing::info!("it is known again which pipes are paused");
                    }
                    failing = false;
                    self.pauses.tell(known, &self.health);
                }
                Err(error) => {
                    if !failing {
                        tell_trouble(&self.connection, &error);
                    }
                    failing = true;
                    if !error.is_temporary() {
                        next = SELDOM;
                    }
                }
            }
            // After it was told to the pipes, for those begin now.
            if let (Some(is_known), Some(answer)) = (first, answer.take_if(|_| first.is_some())) {
                // Nobody may listen any more.
                let _ = answer.send(is_known);
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.pauses.0.nudge.notified() => {}
                () = sleep(next) => {}
            }
        }
    }

    async fn ask(&self) -> outbox::Result<Known> {
        let asked = async { self.databases.pauses(&self.connection).await?.list().await };
        let silent = |_| Err(outbox::Error::new(ErrorKind::Timeout, "no answer"));
        let pauses = timeout(PATIENCE, asked).await.unwrap_or_else(silent)?;
        Ok(pauses.into_iter().map(|pause| (pause.pipe.clone(), pause)).collect())
    }
}

/// Whether it is known which pipes are paused; none if that may still come. Where there is no table none is.
fn first_answer(asked: &outbox::Result<Known>) -> Option<bool> {
    match asked {
        Ok(_) => Some(true),
        Err(error) if error.is_temporary() => None,
        Err(error) => Some(error.kind() == ErrorKind::NotMigrated),
    }
}

fn tell_trouble(connection: &Connection, error: &outbox::Error) {
    let database = &connection.name;
    if error.kind() == ErrorKind::NotMigrated {
        tracing::info!(database, "no pipe can be paused: there is no table of pauses; run `outboxd migrate`");
    } else {
        let error = error.chain();
        tracing::warn!(database, error, "cannot tell which pipes are paused; what was known last holds");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(pipe: &str, note: Option<&str>) -> Pause {
        let at = "2026-01-31T12:00:00.250Z".parse().expect("a time");
        Pause { pipe: pipe.to_owned(), by: "ann".to_owned(), at, note: note.map(str::to_owned) }
    }

    #[test]
    fn a_pause_is_told_with_who_since_when_and_why() {
        assert_eq!(sentence(&pause("relay", None)), "paused by ann since 2026-01-31T12:00:00Z");
        let told = sentence(&pause("relay", Some("the broker moves")));
        assert_eq!(told, "paused by ann since 2026-01-31T12:00:00Z: the broker moves");
    }

    #[test]
    fn an_error_that_does_not_pass_leaves_unknown_what_is_paused() {
        let failed = |kind| first_answer(&Err(outbox::Error::new(kind, "no")));
        assert_eq!(first_answer(&Ok(Known::new())), Some(true));
        assert_eq!(failed(ErrorKind::Timeout), None, "it may still come");
        assert_eq!(failed(ErrorKind::Denied), Some(false));
        assert_eq!(failed(ErrorKind::NotMigrated), Some(true), "nothing can be paused there");
    }

    #[tokio::test]
    async fn a_change_of_one_pipe_is_heard_by_that_pipe() {
        let pauses = Pauses::default();
        let listener = pauses.clone();
        let heard = tokio::spawn(async move {
            let pause = listener.until_paused("relay").await;
            listener.until_resumed("relay").await;
            pause
        });
        for known in [vec!["mailer"], vec!["mailer", "relay"]] {
            let known = known.into_iter().map(|name| (name.to_owned(), pause(name, None))).collect();
            pauses.0.known.send_replace(known);
            tokio::task::yield_now().await;
        }
        assert!(pauses.of("relay").is_some() && pauses.of("other").is_none());
        assert!(!heard.is_finished(), "it is paused");
        pauses.0.known.send_replace(Known::new());
        assert_eq!(heard.await.expect("no panic"), pause("relay", None));
    }
}

//! Which pipes are paused, as this process knows it: asked of the database again and again, followed by the pipes.
//!
//! A database that is away changes nothing: what was known last holds. So a pipe that was paused stays so, and one that
//! runs goes on. At the start nothing is known: no pipe begins before the first answer, for one that was paused may do
//! harm, and waiting loses nothing. Where nobody can pause anything all begin at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::{describe_gauge, gauge};
use outbox::ErrorKind;
use outbox::pauses::Pause;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::backends::Databases;
use crate::connection::{Connection, Kind};
use crate::health::Health;
use crate::plan::{AuditPlan, Plan};
use crate::trouble::{Exit, Trouble};

/// How often the database is asked.
const LOOK: Duration = Duration::from_secs(2);

/// How often it is asked for a table that only a person can make.
const SELDOM: Duration = Duration::from_secs(30);

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// What was heard of the database.
#[derive(Debug, Clone, Default, PartialEq)]
enum Heard {
    /// It has not answered yet.
    #[default]
    Nothing,
    /// It could not tell yet; a run that ends by itself ends so.
    Trouble(Exit),
    /// These are paused.
    Pauses(Known),
}

impl Heard {
    fn known(&self) -> Option<&Known> {
        match self {
            Self::Pauses(known) => Some(known),
            Self::Nothing | Self::Trouble(_) => None,
        }
    }
}

/// What is known of pauses, and how to hear of a change.
#[derive(Debug, Clone, Default)]
pub struct Pauses(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    heard: watch::Sender<Heard>,
    nudge: Notify,
}

impl Pauses {
    /// The pause of a pipe, if it is known to have one.
    pub fn of(&self, pipe: &str) -> Option<Pause> {
        self.0.heard.borrow().known().and_then(|known| known.get(pipe).cloned())
    }

    /// Whether a pipe may run: it is known, and the pipe is not paused.
    pub fn lets_run(&self, pipe: &str) -> bool {
        self.0.heard.borrow().known().is_some_and(|known| !known.contains_key(pipe))
    }

    /// Somebody in this process has changed something: it is asked for at once.
    pub fn nudge(&self) {
        self.0.nudge.notify_one();
    }

    /// Returns when the pipe is paused, with the pause.
    pub async fn until_paused(&self, pipe: &str) -> Pause {
        let mut heard = self.0.heard.subscribe();
        loop {
            if let Some(pause) = heard.borrow_and_update().known().and_then(|known| known.get(pipe)) {
                return pause.clone();
            }
            // Whoever tells is this very value, so there always is one.
            let _ = heard.changed().await;
        }
    }

    /// Returns when it is known which pipes are paused.
    pub async fn until_known(&self) {
        let mut heard = self.0.heard.subscribe();
        let _ = heard.wait_for(|heard| heard.known().is_some()).await;
    }

    /// Returns when the pipe may run.
    pub async fn until_resumed(&self, pipe: &str) {
        let mut heard = self.0.heard.subscribe();
        let is_free = |heard: &Heard| heard.known().is_some_and(|known| !known.contains_key(pipe));
        let _ = heard.wait_for(is_free).await;
    }

    /// Returns after the first answer of the database, or when it is clear that there was none, which is told in the log:
    /// then how a run ends that waits for nobody.
    pub async fn first_answer(&self) -> Result<(), Exit> {
        let mut heard = self.0.heard.subscribe();
        match heard.wait_for(|heard| *heard != Heard::Nothing).await.as_deref() {
            Ok(Heard::Trouble(exit)) => Err(*exit),
            _ => Ok(()),
        }
    }

    /// Follows the database of the plan until the stop.
    pub fn follow(
        &self,
        plan: &Plan,
        databases: &Arc<Databases>,
        health: &Arc<Health>,
        stop: &CancellationToken,
    ) {
        let Some(audit) = &plan.audit else {
            // Nobody can pause anything here, which is said to whoever tries.
            return self.tell(Known::new(), health);
        };
        let watcher = Watcher {
            pauses: self.clone(),
            databases: databases.clone(),
            connection: audit.connection.clone(),
            health: health.clone(),
            hides: hides_tables(audit),
        };
        tokio::spawn(watcher.watch(stop.clone()));
    }

    /// As if the database had told it.
    #[cfg(test)]
    pub fn put(&self, pauses: impl IntoIterator<Item = Pause>) {
        let known = pauses.into_iter().map(|pause| (pause.pipe.clone(), pause)).collect();
        self.0.heard.send_replace(Heard::Pauses(known));
    }

    fn is_known(&self) -> bool {
        self.0.heard.borrow().known().is_some()
    }

    fn tell(&self, known: Known, health: &Health) {
        for pipe in health.pipes() {
            let pause = known.get(&pipe.name).cloned();
            let figure = gauge!(PAUSED, "source" => pipe.from.clone(), "pipe" => pipe.name.clone());
            figure.set(f64::from(u8::from(pause.is_some())));
            pipe.set_pause(pause);
        }
        self.0.heard.send_if_modified(|before| {
            let now = Heard::Pauses(known);
            let has_changed = *before != now;
            *before = now;
            has_changed
        });
    }

    /// It is not known yet which are paused: they wait.
    fn tell_unknown(&self, trouble: &Trouble, health: &Health) {
        health.pipes().for_each(|pipe| pipe.pauses_failed(trouble.to_string()));
        self.0.heard.send_replace(Heard::Trouble(trouble.exit));
    }
}

/// Asks the database.
struct Watcher {
    pauses: Pauses,
    databases: Arc<Databases>,
    connection: Connection,
    health: Arc<Health>,
    /// Whether a table that is not there looks like one that we may not read.
    hides: bool,
}

/// MySQL tells nobody whether a table is there that they may not read. Where nobody has asked for an audit, as with a mapped
/// table, it is taken to be missing; where somebody has, they want its pauses to hold.
fn hides_tables(audit: &AuditPlan) -> bool {
    !audit.chosen && audit.connection.kind == Kind::MySql
}

impl Watcher {
    async fn watch(self, stop: CancellationToken) {
        let mut failing = false;
        loop {
            let Some(asked) = stop.run_until_cancelled(self.ask()).await else { return };
            let mut next = LOOK;
            match asked {
                Ok(known) => {
                    if failing {
                        tracing::info!("it is known again which pipes are paused");
                    }
                    failing = false;
                    self.pauses.tell(known, &self.health);
                }
                Err(error) => {
                    self.failed(&error, failing);
                    failing = true;
                    if !error.is_temporary() {
                        next = SELDOM;
                    }
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.pauses.0.nudge.notified() => {}
                () = sleep(next) => {}
            }
        }
    }

    /// The database could not tell; it is news unless it was `failing` before.
    fn failed(&self, error: &outbox::Error, failing: bool) {
        let database = &self.connection.name;
        let is_known = self.pauses.is_known();
        let is_missing =
            error.kind() == ErrorKind::NotMigrated || self.hides && error.kind() == ErrorKind::Denied;
        if is_missing {
            if !failing {
                tracing::info!(
                    database,
                    "no pipe can be paused: there is no table of pauses; run `outboxd migrate`"
                );
            }
            if !is_known {
                self.pauses.tell(Known::new(), &self.health);
            }
        } else if is_known {
            if !failing {
                let error = error.chain();
                tracing::warn!(
                    database,
                    error,
                    "cannot tell which pipes are paused; what was known last holds"
                );
            }
        } else {
            let trouble = Trouble::at_database("cannot tell which pipes are paused", &self.connection, error);
            if !failing {
                tracing::warn!("no pipe begins before it is known: {trouble}; {}", trouble.help());
            }
            self.pauses.tell_unknown(&trouble, &self.health);
        }
    }

    async fn ask(&self) -> outbox::Result<Known> {
        let asked = async { self.databases.pauses(&self.connection).await?.list().await };
        let silent = |_| Err(outbox::Error::new(ErrorKind::Timeout, "no answer"));
        let pauses = timeout(PATIENCE, asked).await.unwrap_or_else(silent)?;
        Ok(pauses.into_iter().map(|pause| (pause.pipe.clone(), pause)).collect())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

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

    #[tokio::test]
    async fn before_the_first_answer_no_pipe_may_run_and_who_waits_for_nobody_is_told() {
        let pauses = Pauses::default();
        assert!(!pauses.lets_run("relay") && pauses.of("relay").is_none());
        pauses.0.heard.send_replace(Heard::Trouble(Exit::Source));
        assert!(!pauses.lets_run("relay") && !pauses.is_known());
        assert_eq!(pauses.first_answer().await, Err(Exit::Source));
        let waiting = pauses.until_resumed("relay");
        assert_eq!(waiting.now_or_never(), None);
        pauses.put([pause("mailer", None)]);
        assert!(pauses.lets_run("relay") && !pauses.lets_run("mailer"));
        assert_eq!(pauses.first_answer().await, Ok(()));
        assert_eq!(pauses.until_resumed("relay").now_or_never(), Some(()));
        assert_eq!(pauses.until_resumed("mailer").now_or_never(), None);
    }

    /// What the database says first, with the pipe that waits for it.
    fn after(kind: ErrorKind, before: Option<Pause>, hides: bool) -> (Pauses, Arc<Health>) {
        let text = "[connections]\nshop = \"sqlite:shop.db\"\n[sources.orders]\non = \"shop\"\n[sinks.screen]\n\
            stdout = true\n[pipes.relay]\nfrom = \"orders\"\nto = \"screen\"\n";
        let checked = Plan::parse(std::path::Path::new("/srv/outboxd.toml"), text, &|_| None);
        let plan = checked.expect("it is valid").plan;
        let health = Arc::new(Health::new("here:1", &plan, &[&plan.pipes["relay"]]));
        let pauses = Pauses::default();
        if let Some(before) = before {
            pauses.put([before]);
        }
        let watcher = Watcher {
            pauses: pauses.clone(),
            databases: Arc::default(),
            connection: plan.connections["shop"].clone(),
            health: health.clone(),
            hides,
        };
        watcher.failed(&outbox::Error::new(kind, "no"), false);
        (pauses, health)
    }

    #[test]
    fn only_where_there_is_no_table_the_pipes_begin_without_an_answer() {
        let waits =
            |health: &Health| health.pipe("relay").expect("it is watched").view().pauses_away.is_some();
        for (kind, exit) in [
            (ErrorKind::Timeout, Exit::Source),
            (ErrorKind::Unreachable, Exit::Source),
            (ErrorKind::Denied, Exit::Source),
            (ErrorKind::Unexpected, Exit::Failed),
        ] {
            let (pauses, health) = after(kind, None, false);
            assert_eq!(*pauses.0.heard.borrow(), Heard::Trouble(exit), "{kind:?}");
            assert!(waits(&health), "{kind:?}");
        }
        let (pauses, health) = after(ErrorKind::NotMigrated, None, false);
        assert!(pauses.lets_run("relay") && !waits(&health), "nothing can be paused there");
        let (pauses, _) = after(ErrorKind::Denied, None, true);
        assert!(pauses.lets_run("relay"), "so says MySQL of a table that is not there");
        let (pauses, health) = after(ErrorKind::Timeout, Some(pause("relay", None)), false);
        assert!(!pauses.lets_run("relay") && pauses.of("relay").is_some() && !waits(&health), "it holds");
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
            pauses.put(known.into_iter().map(|name| pause(name, None)));
            tokio::task::yield_now().await;
        }
        assert!(pauses.of("relay").is_some() && pauses.of("other").is_none());
        assert!(!heard.is_finished(), "it is paused");
        pauses.put([]);
        assert_eq!(heard.await.expect("no panic"), pause("relay", None));
    }
}

//! What a person can see and do, as data in and data out. Nothing is printed here, and nobody is asked.
//!
//! The verbs of the command line, the JSON API and the pages all call these: `async fn(&Office, Request, by) ->
//! Result<Answer, Trouble>`. Who may, and whether it is meant, is settled by whoever calls.

pub mod asked;
pub mod audit;
mod book;
mod choose;
pub mod dead;
mod deeds;
pub mod doctor;
pub mod errors;
pub mod failures;
pub mod filter;
pub mod instances;
mod looks;
pub mod messages;
pub mod pause;
pub mod pipes;
pub mod purge;
pub mod queues;
pub mod repair;
pub mod replay;
pub mod send;
pub mod show;
pub mod status;
pub mod told;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::backends::{Databases, Log};
use crate::mistake::Mistake;
use crate::pauses::Pauses;
use crate::plan::{Plan, SourcePlan};
use crate::show::effective;
use crate::trouble::{Exit, Trouble};

pub use book::{Book, Tally, written_down};
pub use choose::{choose, choose_one, choose_outboxes, log_options};
pub use deeds::Deeds;
pub use filter::Selection;
pub use looks::Looks;

/// Is told how many are done, again and again.
pub type Tell<'t> = &'t (dyn Fn(u64) + Send + Sync);

/// So long may somebody wait who sits before a page.
const PATIENCE: Duration = Duration::from_secs(2);

/// The plan, and what is open of it: a page does not connect anew. The command line has one per call.
pub struct Office {
    /// What the configuration says.
    pub plan: Arc<Plan>,
    /// The databases of handlers, inboxes, error tables and the book.
    pub databases: Arc<Databases>,
    /// What somebody should look at in the configuration.
    pub warnings: Vec<Mistake>,
    logs: Mutex<BTreeMap<String, Log>>,
    patience: Option<Duration>,
    /// What is done for people.
    pub deeds: Deeds,
    /// Looks at brokers.
    pub looks: Looks,
    /// What the pipes of this process follow, if it has any.
    following: Pauses,
}

/// An open outbox with its plan.
pub struct Opened<'p> {
    /// What the plan says about it.
    pub source: &'p SourcePlan,
    /// The outbox.
    pub log: Log,
}

impl Opened<'_> {
    /// Words for an error of this outbox.
    pub fn trouble(&self, doing: &str, error: &outbox::Error) -> Trouble {
        Trouble::at_source(doing, self.source, error)
    }
}

impl Office {
    /// For one call of the command line, which may take its time.
    pub fn for_call(plan: Plan) -> Self {
        Self { patience: None, ..Self::serving(Arc::new(plan), Arc::default()) }
    }

    /// For a process that answers many: what takes longer than 2 s is given up.
    pub fn serving(plan: Arc<Plan>, databases: Arc<Databases>) -> Self {
        let (deeds, looks) = (Deeds::default(), Looks::default());
        let (logs, following, warnings) = (Mutex::default(), Pauses::default(), Vec::new());
        Self { plan, databases, warnings, logs, patience: Some(PATIENCE), deeds, looks, following }
    }

    /// With what was to be said about the configuration.
    #[must_use]
    pub fn warned(self, warnings: Vec<Mistake>) -> Self {
        Self { warnings, ..self }
    }

    /// With pipes in the same process, which hear at once of what is paused or resumed here.
    #[must_use]
    pub fn followed_by(self, pauses: Pauses) -> Self {
        Self { following: pauses, ..self }
    }

    /// After this stop nothing is begun any more; what was begun comes to its end, see [`Deeds::ended`].
    #[must_use]
    pub fn until(self, stop: CancellationToken) -> Self {
        let deeds = Deeds::until(stop);
        Self { looks: Looks::counted_by(deeds.clone()), deeds, ..self }
    }

    /// Whether somebody sits before a page.
    pub fn is_hurried(&self) -> bool {
        self.patience.is_some()
    }

    /// Looks at something, within the patience of whoever asked. Only for what changes nothing: what is given up
    /// half-way must not matter.
    pub async fn look<T>(
        &self,
        doing: &str,
        look: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        let Some(patience) = self.patience else { return look.await };
        tokio::time::timeout(patience, look).await.unwrap_or_else(|_| {
            let what = format!("{doing}: it took longer than {patience:?}");
            let help =
                "try again, or ask for less: one source, one pipe, a state; the command line waits longer";
            Err(Trouble::new(Exit::Source, what, help))
        })
    }

    /// Opens an outbox that must be there, or takes it as it is open. What failed is tried anew the next time.
    pub async fn open<'p>(&self, source: &'p SourcePlan) -> Result<Opened<'p>, Trouble> {
        if let Some(log) = self.logs.lock().await.get(&source.name) {
            return Ok(Opened { source, log: log.clone() });
        }
        // Not under the lock: one that does not answer keeps nobody else waiting. Of two the first stays.
        let log = Log::open(source).await;
        let log = log.map_err(|error| Trouble::at_source("cannot open the source", source, &error))?;
        let log = self.logs.lock().await.entry(source.name.clone()).or_insert(log).clone();
        Ok(Opened { source, log })
    }

    /// Opens the outboxes that are meant: the named one, or all.
    pub async fn open_all(&self, source: Option<&str>) -> Result<Vec<Opened<'_>>, Trouble> {
        let mut opened = Vec::new();
        for source in choose_outboxes(&self.plan, source)? {
            opened.push(self.open(source).await?);
        }
        Ok(opened)
    }

    /// The effective configuration: defaults filled in, secrets masked.
    pub fn config(&self) -> serde_json::Value {
        effective(&self.plan)
    }

    /// The book in which repairs are written down, or why there is none: without one nothing is repaired.
    pub async fn book(&self, by: &str) -> Result<Book, Trouble> {
        Book::open(&self.plan, &self.databases, by).await
    }
}

/// A name or an id that no database could hold is a mistake, and not something that is not there.
pub fn check_id(text: &str) -> Result<(), Trouble> {
    if text.contains('\0') {
        return Err(Trouble::usage("there is a NUL character in a name or an id", "check it: none has one"));
    }
    Ok(())
}

//! The connections that this process has to databases.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::fresh::Family;
use crate::backends::{Database, Databases};

const POOL: &str = "outbox_pool_connections";

/// The pools of a run.
pub struct Pools {
    databases: Arc<Databases>,
    /// Those of logs, which have their own, by name of the connection.
    logs: Mutex<Vec<(String, Database)>>,
}

impl Pools {
    /// Those of handlers and inboxes; logs come in addition when they are open.
    pub fn new(databases: Arc<Databases>) -> Self {
        Self { databases, logs: Mutex::default() }
    }

    /// A log was opened on this connection.
    pub fn add(&self, connection: &str, database: Database) {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).push((connection.to_owned(), database));
    }

    /// How many connections there are to each database.
    pub fn figures(&self) -> Vec<Family> {
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for (name, database) in logs.into_iter().chain(self.databases.opened()) {
            let (all, idle) = database.connections();
            let sum = sums.entry(name).or_default();
            *sum = (sum.0 + f64::from(all.saturating_sub(idle)), sum.1 + f64::from(idle));
        }
        let samples = sums.into_iter().flat_map(|(database, (used, idle))| {
            let of = |state: &str| vec![("database", database.clone()), ("state", state.to_owned())];
            [(of("used"), used), (of("idle"), idle)]
        });
        vec![Family { name: POOL, help: "Connections to a database", samples: samples.collect() }]
    }
}

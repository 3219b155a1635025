//! Alerts by the process itself, for those who have no Prometheus: the same conditions, told once when they begin to hold and
//! once when they are over.
//!
//! `facts.rs` reads the figures, `conditions.rs` judges them, `state.rs` knows what was told, `teller.rs` decides which of
//! several instances tells, and `send.rs` brings it where it should go.

mod conditions;
mod facts;
mod send;
mod state;
mod teller;

use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use teller::Us;

use crate::http::Figures;
use crate::plan::{AlertsPlan, Plan};
use crate::watch::Instances;
use conditions::{COUNTERS, Known, RULES};
use facts::{Facts, History};
use send::Courier;
use state::{Change, State, Status};
use teller::Others;

/// Looks at the figures again and again.
struct Watcher {
    plan: Plan,
    alerts: AlertsPlan,
    us: Us,
    figures: Figures,
    instances: Option<Arc<Instances>>,
    couriers: Vec<Courier>,
    history: History,
    state: State,
    others: Others,
}

/// Watches until the stop.
pub fn start(
    plan: &Plan,
    alerts: &AlertsPlan,
    us: Us,
    figures: Figures,
    instances: Option<Arc<Instances>>,
    stop: &CancellationToken,
) {
    let couriers = send::couriers(plan, alerts, stop);
    let (plan, alerts) = (plan.clone(), alerts.clone());
    let (history, state, others) = (History::default(), State::default(), Others::default());
    let mut watcher = Watcher { plan, alerts, us, figures, instances, couriers, history, state, others };
    let stop = stop.clone();
    tokio::spawn(async move {
        while stop.run_until_cancelled(tokio::time::sleep(watcher.alerts.every)).await.is_some() {
            watcher.look();
        }
    });
}

impl Watcher {
    fn look(&mut self) {
        // Who the others are must be known first, or what they have told would be told again.
        if self.instances.as_ref().is_some_and(|instances| !instances.is_looked_at()) {
            return;
        }
        let facts = Facts::parse(&self.figures.render());
        let grown = self.history.grown(&COUNTERS, &facts, Instant::now());
        let known = Known { facts: &facts, grown: &grown, limits: &self.alerts.limits };
        let living = self.others.look(&facts, Instant::now());
        let seen = RULES.iter().map(|rule| (rule, rule.look(&known)));
        let changes = self.state.step(seen, Timestamp::now(), |rule, labels| {
            teller::tells(&self.us, rule, living, &teller::concerned(&self.plan, labels))
        });
        changes.iter().for_each(|change| self.tell(change));
    }

    fn tell(&self, change: &Change) {
        let Change { alert, summary, .. } = change;
        match change.status {
            Status::Firing => tracing::warn!(alert, summary, "an alert fires"),
            Status::Resolved => tracing::info!(alert, summary, "an alert is over"),
        }
        match send::message(change, &self.us.name) {
            Ok(message) => self.couriers.iter().for_each(|courier| courier.take(message.clone())),
            Err(error) => tracing::error!(error = error.chain(), "an alert cannot be written"),
        }
    }
}

#[cfg(test)]
mod conditions_tests;

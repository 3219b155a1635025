//! How the pipes of this process are: what they tell of themselves, what was looked at besides, and what to make of it.
//!
//! `watched.rs` keeps what is known, `judge.rs` decides what it means, `look.rs` asks brokers and sources, `beat.rs` tells the
//! other instances. The HTTP server shows it and asks nobody: a question from outside costs no server anything.

mod beat;
mod judge;
mod look;
mod watched;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use outbox::beats::Beat;

pub use beat::{Heart, beat};
pub use judge::{Judged, Level, judge, sink_away};
pub use look::{Check, look_at_sink, look_at_source};
pub use watched::{Away, Phase, View, Watched};

use crate::plan::{PipePlan, Plan};

/// The pipes of this process.
pub struct Health {
    /// Who we are.
    pub instance: String,
    started_at: Timestamp,
    pipes: BTreeMap<String, Arc<Watched>>,
}

impl Health {
    /// Of these pipes, none of which runs yet.
    pub fn new(instance: &str, plan: &Plan, chosen: &[&PipePlan]) -> Self {
        let watched = |pipe: &&PipePlan| {
            let timeout = plan.sinks[&pipe.to].target.timeout();
            (pipe.name.clone(), Arc::new(Watched::new(pipe, timeout.unwrap_or_default())))
        };
        let pipes = chosen.iter().map(watched).collect();
        Self { instance: instance.to_owned(), started_at: Timestamp::now(), pipes }
    }

    /// One pipe.
    pub fn pipe(&self, name: &str) -> Option<&Arc<Watched>> {
        self.pipes.get(name)
    }

    /// All of them.
    pub fn pipes(&self) -> impl Iterator<Item = &Arc<Watched>> {
        self.pipes.values()
    }

    /// The pipes to a sink.
    pub fn pipes_to(&self, sink: &str) -> Vec<Arc<Watched>> {
        self.pipes.values().filter(|pipe| pipe.to == sink).cloned().collect()
    }

    /// Every pipe as it is now, and what that means.
    pub fn judged(&self) -> Vec<(View, Judged)> {
        let now = Timestamp::now();
        let judged = |pipe: &Arc<Watched>| {
            let view = pipe.view();
            let judged = judge(&view, now);
            (view, judged)
        };
        self.pipes.values().map(judged).collect()
    }

    /// What the other instances are told.
    fn beats(&self) -> Vec<Beat> {
        let beat = |(view, judged): (View, Judged)| Beat {
            instance: self.instance.clone(),
            pipe: view.pipe,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at,
            state: judged.state,
            cause: judged.cause,
            last_message_at: view.last_message_at,
            delivered: view.delivered,
            failed: view.failed,
            in_flight: view.in_flight,
        };
        self.judged().into_iter().map(beat).collect()
    }
}

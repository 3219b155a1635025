//! `/queues`: how much lies where at the brokers, who reads it, and which instances live.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;

use super::frame::{Frame, page};
use super::rates::{per_second, signed_per_second};
use super::text::{grouped, when};
use crate::http::Shared;
use crate::ops;
use crate::ops::pipes::PipesAnswer;

#[derive(Template)]
#[template(path = "queues.html")]
struct Queues {
    frame: Frame,
    queues: Arc<ops::queues::Queues>,
    /// By so much each queue grows or shrinks, by source and queue.
    changes: BTreeMap<(String, String), f64>,
    instances: Vec<Instance>,
    remarks: Vec<String>,
}

impl Queues {
    fn change(&self, source: &str, queue: &str) -> Option<&f64> {
        self.changes.get(&(source.to_owned(), queue.to_owned()))
    }
}

/// A process that runs pipes.
pub(super) struct Instance {
    pub(super) name: String,
    own: bool,
    version: String,
    pub(super) told_at: Timestamp,
    last_message_at: Option<Timestamp>,
    pub(super) delivered: u64,
    /// Deliveries per second, lately.
    rate: Option<f64>,
    failed: u64,
    in_flight: u64,
    /// It was not heard of for too long.
    is_offline: bool,
    /// Each pipe with its state.
    pipes: Vec<(String, String)>,
}

/// The same by instance. Pure.
pub(super) fn by_instance(shown: &PipesAnswer) -> Vec<Instance> {
    let mut all: BTreeMap<(bool, String), Instance> = BTreeMap::new();
    for pipe in &shown.pipes {
        for told in &pipe.instances {
            let of = all.entry((!told.own, told.instance.clone())).or_insert_with(|| Instance {
                name: told.instance.clone(),
                own: told.own,
                version: told.version.clone(),
                told_at: told.told_at,
                last_message_at: None,
                delivered: 0,
                rate: None,
                failed: 0,
                in_flight: 0,
                is_offline: told.offline,
                pipes: Vec::new(),
            });
            of.told_at = of.told_at.max(told.told_at);
            of.last_message_at = of.last_message_at.max(told.last_message_at);
            of.delivered += told.delivered;
            of.failed += told.failed;
            of.in_flight += told.in_flight;
            of.is_offline &= told.offline;
            of.pipes.push((pipe.pipe.clone(), told.state.clone()));
        }
    }
    all.into_values().collect()
}

/// The queues.
pub(super) async fn page_of_queues(State(shared): State<Arc<Shared>>, frame: Frame) -> Response {
    let (office, health) = (&shared.options.office, &shared.options.health);
    let (queues, mut pipes) =
        futures_util::join!(shared.board.queues(office), ops::pipes::pipes(office, health));
    let remarks = std::mem::take(&mut pipes.remarks);
    let mut instances = by_instance(&pipes);
    for one in &mut instances {
        let mut deliveries = shared.board.deliveries();
        deliveries.note(&one.name, one.told_at, one.delivered);
        one.rate = deliveries.rate(&one.name).filter(|_| !one.is_offline);
    }
    let changes = shared.board.depths().changes();
    let shown = Queues { queues, changes, instances, remarks, frame };
    page(&shown.frame, &shown)
}

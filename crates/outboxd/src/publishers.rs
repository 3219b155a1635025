//! The publishers of a plan: each is ready as soon as its store is open.

use std::collections::BTreeMap;
use std::sync::Arc;

use outbox::{Publisher, Sink};
use tokio_util::sync::CancellationToken;

use crate::backends::{Log, Sinks};
use crate::health::Health;
use crate::http::{Figures, HttpOptions, Serving, Slot, serve};
use crate::ops::Office;
use crate::plan::{HttpPlan, PipePlan, Plan, PublisherPlan, SourcePlan, Target};
use crate::run::RECONNECT;
use crate::trouble::{Exit, Trouble};

/// Whether a run of these pipes has a use for the HTTP server. A pipe to a broker or to an endpoint has none, and a
/// second process with other pipes may have the address.
pub fn are_served(plan: &Plan, chosen: &[&PipePlan]) -> bool {
    let measures = |pipe: &&PipePlan| matches!(plan.sinks[&pipe.to].target, Target::Metrics(_));
    chosen.len() == plan.pipes.len() || chosen.iter().any(measures) || of_pipes(plan, chosen).next().is_some()
}

/// The publishers of a run: those of which these pipes deliver what was kept.
fn of_pipes<'p>(plan: &'p Plan, chosen: &[&PipePlan]) -> impl Iterator<Item = &'p PublisherPlan> {
    let is_chosen = |pipe: &PipePlan| chosen.iter().any(|other| other.name == pipe.name);
    plan.publishers.values().filter(move |publisher| delivers(plan, publisher).is_some_and(is_chosen))
}

/// Starts the HTTP server with the publishers of these pipes behind it; an address that cannot be had is told at once.
pub async fn listen(
    plan: &Plan,
    http: &HttpPlan,
    figures: Figures,
    chosen: &[&PipePlan],
    health: &Arc<Health>,
    office: &Arc<Office>,
    stop: &CancellationToken,
) -> anyhow::Result<Serving> {
    let tokens = http.token.iter().cloned().collect();
    let (access, health, office) = (http.access.clone(), health.clone(), office.clone());
    let options = HttpOptions { listen: http.listen, tokens, access, figures, health, office };
    let slots = of_pipes(plan, chosen).map(|publisher| (publisher.name.clone(), Slot::default()));
    let slots: BTreeMap<String, Slot> = slots.collect();
    let serving = serve(options, slots.clone(), stop.clone()).await.map_err(|error| {
        let help = "listen elsewhere, by http.listen or --listen, or end what listens there";
        Trouble::new(Exit::Failed, format!("{error:#}"), help)
    })?;
    // Only now: who says that it is ready can be reached.
    for (name, slot) in slots {
        open(plan, &plan.publishers[&name], slot, stop);
    }
    Ok(serving)
}

/// The buckets that the configuration gives to histograms.
pub fn buckets(plan: &Plan) -> impl Iterator<Item = (&str, &[f64])> {
    let meters = plan.sinks.values().filter_map(|sink| match &sink.target {
        Target::Metrics(meters) => Some(meters),
        _ => None,
    });
    let own = meters.flatten().filter(|meter| !meter.buckets.is_empty());
    own.map(|meter| (meter.name.as_str(), meter.buckets.as_slice()))
}

/// Opens a publisher in the background: its store may be out of reach for now.
fn open(plan: &Plan, publisher: &PublisherPlan, slot: Slot, stop: &CancellationToken) {
    let (sink, source) = (&plan.sinks[&publisher.to], plan.sources[&publisher.keep].clone());
    let Some(pipe) = delivers(plan, publisher).cloned() else { return };
    let mut sinks = Sinks::new(Arc::default());
    if let Err(error) = sinks.prepare(sink, &CancellationToken::new()) {
        let trouble = Trouble::at_sink("the publisher does not work: cannot use the sink", sink, &error);
        tracing::error!(publisher = publisher.name, "{trouble}; {}", trouble.help());
        return drop(slot.set(Err(trouble.to_string())));
    }
    let Some(opened) = sinks.of_pipe(sink, &publisher.name) else { return };
    let opening = fill(publisher.clone(), opened, source, pipe, slot);
    tokio::spawn(stop.clone().run_until_cancelled_owned(opening));
}

/// The pipe that delivers what is kept: the one that leads where the publisher does, or else the first.
fn delivers<'p>(plan: &'p Plan, publisher: &PublisherPlan) -> Option<&'p PipePlan> {
    let mut pipes = plan.pipes_from(&publisher.keep);
    pipes.find(|pipe| pipe.to == publisher.to).or_else(|| plan.pipes_from(&publisher.keep).next())
}

/// Tries until the store is open, or never will be.
async fn fill(plan: PublisherPlan, sink: Arc<dyn Sink>, source: SourcePlan, pipe: PipePlan, slot: Slot) {
    let mut failures = 0;
    let store = loop {
        let opened = Log::open(&source).await.and_then(|log| log.store(&pipe));
        let error = match opened {
            Ok(store) => break store,
            Err(error) => error,
        };
        let trouble = Trouble::at_source("the publisher cannot keep messages", &source, &error);
        if !error.is_temporary() {
            tracing::error!(publisher = plan.name, "{trouble}; {}", trouble.help());
            return drop(slot.set(Err(error.chain())));
        }
        failures += 1;
        if failures == 1 {
            tracing::warn!(publisher = plan.name, "{trouble}; trying again");
        }
        tokio::time::sleep(RECONNECT.delay(failures, rand::random())).await;
    };
    let _ = slot.set(Ok(Publisher::new(sink, store).timeout(plan.timeout)));
    tracing::info!(publisher = plan.name, to = plan.to, keep = plan.keep, "ready");
}

//! `run`: every pipe of the plan, until a signal.
//!
//! Sources are independent of each other, and so are pipes: what stops one for good is told once, and the
//! others go on. What is only out of reach is waited for.

mod pipe;
mod server;
mod upkeep;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use outbox::Sink;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::alerts;
use crate::backends::{Databases, Opened, Sinks};
use crate::cli::args::RunArgs;
use crate::health::{Health, Heart, beat, look_at_sink};
use crate::http::Figures;
use crate::logging;
use crate::mistake::{Mistake, did_you_mean};
use crate::ops::{Deeds, Office};
use crate::pauses::Pauses;
use crate::plan::{PipePlan, Plan, Target};
use crate::publishers;
use crate::traces::Traces;
use crate::trouble::{Exit, Trouble};
use crate::watch::{self, Instances, Pools};
pub use worker::RECONNECT;
use worker::SourceWorker;

/// How long the queues of a run are waited for before it begins.
const DECLARE: Duration = Duration::from_secs(5);

/// Runs the pipes until a signal; ends when all have ended. The warnings are those of the configuration.
pub async fn run(plan: &Plan, warnings: Vec<Mistake>, args: &RunArgs) -> anyhow::Result<Exit> {
    let stop = CancellationToken::new();
    choose(plan, &args.pipe)?;
    listen(stop.clone())?;
    carry(plan, warnings, args, stop, BTreeMap::new()).await
}

/// Runs the pipes until the stop; `own` are sinks of the program's own that stand in for those of the plan, by name.
pub async fn carry(
    plan: &Plan,
    warnings: Vec<Mistake>,
    args: &RunArgs,
    stop: CancellationToken,
    own: BTreeMap<String, Arc<dyn Sink>>,
) -> anyhow::Result<Exit> {
    let chosen = choose(plan, &args.pipe)?;
    // A pipe to a broker does not care whether somebody reads the output of another.
    let only_stdout = chosen.iter().all(|pipe| plan.sinks[&pipe.to].target == Target::Stdout);
    let unread = if only_stdout { stop.clone() } else { CancellationToken::new() };
    declare(plan, &chosen, &stop).await;
    let owner = owner_name(plan.relay.as_deref());
    let health = Arc::new(Health::new(&owner, plan, &chosen));
    let (pauses, databases) = (Pauses::default(), Arc::new(Databases::default()));
    let office = Office::serving(Arc::new(plan.clone()), databases.clone());
    let office = Arc::new(office.followed_by(pauses.clone()).until(stop.clone()).warned(warnings));
    // Before the sinks: what they measure must have somewhere to go.
    let until = stop.child_token();
    let http = server::server(plan, args, &chosen)?;
    let alerts = plan.alerts.as_ref().filter(|_| !args.once);
    let is_watched = http.is_some() || alerts.is_some();
    let figures = is_watched.then(|| Figures::install(publishers::buckets(plan))).transpose()?;
    let serving = match http.zip(figures.clone()) {
        Some((http, figures)) => {
            Some(publishers::listen(plan, &http, figures, &chosen, &health, &office, &until).await?)
        }
        None => None,
    };
    let start = |traces| Traces::start(traces, plan, &chosen, &owner).map(Arc::new);
    let traces = plan.traces.as_ref().map(start).transpose()?;
    let mut worst = Exit::Ok;
    let pools = Arc::new(Pools::new(databases.clone()));
    let mut sinks = Sinks::new(databases.clone());
    for name in chosen.iter().map(|pipe| &pipe.to).collect::<BTreeSet<_>>() {
        let sink = &plan.sinks[name];
        if let Some(own) = own.get(name) {
            sinks.put(name, own.clone());
            continue;
        }
        if let Err(error) = sinks.prepare(sink, &unread) {
            let trouble = Trouble::at_sink("its pipes do not run: cannot use the sink", sink, &error);
            tracing::error!(sink = name, "{trouble}; {}", trouble.help());
            health.pipes_to(name).iter().for_each(|pipe| pipe.ended(Some(trouble.to_string())));
            worst = trouble.exit;
        }
    }
    let ready = |pipe: &PipePlan| sinks.of_pipe(&plan.sinks[&pipe.to], &pipe.name);
    let chosen: Vec<_> = chosen.into_iter().filter_map(|pipe| Some((pipe, ready(pipe)?))).collect();
    // Ends with the last pipe, which may be before anybody stops us.
    let upkeep = stop.child_token();
    let _stop_upkeep = upkeep.clone().drop_guard();
    pauses.follow(plan, &databases, &health, &upkeep);
    let mut tasks = JoinSet::new();
    for name in chosen.iter().map(|(pipe, _)| &pipe.from).collect::<BTreeSet<_>>() {
        let source = Arc::new(plan.sources[name].clone());
        let pipes = chosen.iter().filter(|(pipe, _)| pipe.from == *name);
        let pipes = pipes.map(|(pipe, sink)| ((*pipe).clone(), sink.clone())).collect();
        let worker = SourceWorker {
            source,
            pipes,
            owner: owner.clone(),
            stop: stop.clone(),
            once: args.once,
            health: health.clone(),
            pauses: pauses.clone(),
            is_watched,
            pools: pools.clone(),
            traces: traces.clone(),
        };
        tasks.spawn(worker.work());
    }
    if !args.once {
        for pruned in upkeep::pruned(plan) {
            tokio::spawn(upkeep::prune(databases.clone(), pruned, upkeep.clone()));
        }
    }
    if let Some(figures) = figures {
        watch::queues(plan, &upkeep);
        watch::errors(plan, &databases, &upkeep);
        let instances = watch::beats(plan, &databases, &upkeep);
        show(&figures, &health, pools, instances.clone());
        if let Some(alerts) = alerts {
            if serving.is_none() {
                tokio::spawn(figures.clone().upkeep(upkeep.clone()));
            }
            let ours = chosen.iter().map(|(pipe, _)| pipe.name.clone()).collect();
            alerts::start(
                plan,
                alerts,
                alerts::Us { name: owner.clone(), pipes: ours },
                figures,
                instances,
                &upkeep,
            );
        }
        for (sink, check) in sinks.take_checks() {
            tokio::spawn(look_at_sink(check, health.pipes_to(&sink), upkeep.clone()));
        }
    }
    // A run that ends by itself is nobody to look for.
    let heart = if args.once { None } else { Heart::new(plan, health, databases) };
    let heart_stop = CancellationToken::new();
    let beating = heart.map(|heart| tokio::spawn(beat(heart, heart_stop.clone())));
    tracing::info!(owner, pipes = chosen.len(), "outboxd is up");
    while let Some(ended) = tasks.join_next().await {
        let exit = ended.unwrap_or_else(|panic| {
            tracing::error!(%panic, "a source ended by a bug");
            Exit::Failed
        });
        if worst == Exit::Ok {
            worst = exit;
        }
    }
    if let Some(traces) = traces {
        traces.finish().await;
    }
    until.cancel();
    heart_stop.cancel();
    if let Some(serving) = serving {
        serving.ended().await;
    }
    finish(&office.deeds, plan).await;
    if let Some(beating) = beating {
        let _ = beating.await;
    }
    tracing::info!("outboxd is down");
    Ok(worst)
}

/// Waits for what people have asked for, as long as the pipes wait for what is in flight.
async fn finish(deeds: &Deeds, plan: &Plan) {
    let limit = plan.pipes.values().map(|pipe| pipe.options.drain).max().unwrap_or_default();
    let left = deeds.ended(limit).await;
    if left > 0 {
        tracing::warn!(left, "left what somebody has begun; the audit has its beginning and no end");
    }
}

/// What is asked for when figures are: how pipes, pools and other instances are.
fn show(figures: &Figures, health: &Arc<Health>, pools: Arc<Pools>, instances: Option<Arc<Instances>>) {
    let health = health.clone();
    figures.also(move || watch::of_pipes(&health));
    figures.also(move || pools.figures());
    if let Some(instances) = instances {
        figures.also(move || instances.figures());
    }
}

/// Makes the queues that are read before anything is published: what a relay of the same run sends first would otherwise
/// find some of them missing, and be confirmed without them. A broker that is away now is told by its own pipe, and not
/// waited for long.
async fn declare(plan: &Plan, chosen: &[&PipePlan], stop: &CancellationToken) {
    let read = chosen.iter().map(|pipe| &pipe.from).collect::<BTreeSet<_>>();
    let queues = read.into_iter().map(|name| &plan.sources[name]).filter(|source| source.is_on_broker());
    let declared = futures_util::future::join_all(queues.map(async |source| {
        if let Ok(opened) = Opened::open(source).await
            && let Err(error) = opened.check().await
        {
            tracing::debug!(source = source.name, error = error.chain(), "not declared before the start");
        }
    }));
    tokio::select! {
        () = stop.cancelled() => {}
        _ = tokio::time::timeout(DECLARE, declared) => {}
    }
}

fn choose<'p>(plan: &'p Plan, names: &[String]) -> Result<Vec<&'p PipePlan>, Trouble> {
    if let Some(name) = names.iter().find(|name| !plan.pipes.contains_key(*name)) {
        let help = did_you_mean(name, plan.pipes.keys().map(String::as_str));
        return Err(Trouble::usage(format!("there is no pipe '{name}'"), help));
    }
    let chosen: Vec<_> =
        plan.pipes.values().filter(|pipe| names.is_empty() || names.contains(&pipe.name)).collect();
    if chosen.is_empty() {
        let help = "add one: [pipes.NAME] with from = \"source\" and to = \"sink\"";
        return Err(Trouble::new(Exit::Config, "there is no pipe in the configuration", help));
    }
    Ok(chosen)
}

/// The first signal drains, the second leaves.
fn listen(stop: CancellationToken) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        let mut signals = 0;
        loop {
            let name = tokio::select! {
                _ = interrupt.recv() => "SIGINT",
                _ = terminate.recv() => "SIGTERM",
            };
            signals += 1;
            if signals > 1 {
                tracing::warn!(signal = name, "leaving at once; leases will run out");
                logging::finish();
                std::process::exit(Exit::Interrupted as i32);
            }
            tracing::info!(signal = name, "stopping; a second signal leaves at once");
            stop.cancel();
        }
    });
    Ok(())
}

/// The configured name or the host, with process and something random: two relays never take each other for
/// themselves, also when they share a configuration.
fn owner_name(configured: Option<&str>) -> String {
    let name = configured.map_or_else(host_name, str::to_owned);
    format!("{name}:{}:{:08x}", std::process::id(), rand::random::<u32>())
}

/// The name of this host.
pub fn host_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let host = host.trim();
    if host.is_empty() { "localhost".to_owned() } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_relays_with_one_configuration_have_two_names() {
        let (one, two) = (owner_name(Some("relay-1")), owner_name(Some("relay-1")));
        let start = format!("relay-1:{}:", std::process::id());
        assert!(one.starts_with(&start) && two.starts_with(&start), "{one} {two}");
        assert_ne!(one, two);
        assert!(!owner_name(None).starts_with(':'));
    }
}

//! `run`: every pipe of the plan, until a signal.
//!
//! Sources are independent of each other, and so are pipes: what stops one for good is told once, and the
//! others go on. What is only out of reach is waited for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use outbox::policy::Backoff;
use outbox::{ErrorKind, Pipe, Sink, Stats};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backends::{self, Log};
use crate::cli::args::RunArgs;
use crate::mistake::did_you_mean;
use crate::once::{self, Lane};
use crate::plan::{PipePlan, Plan, SourcePlan, Target};
use crate::publishers;
use crate::trouble::{Exit, Trouble};

/// How long a source that cannot be opened is left alone.
pub const RECONNECT: Backoff = Backoff { first: Duration::from_secs(1), most: Duration::from_secs(30) };

/// How often what is old is removed, and how much at a time.
const RETENTION_PAUSE: Duration = Duration::from_secs(600);
const RETENTION_STEP: u32 = 1_000;

/// Runs the pipes; ends when all have ended.
pub async fn run(plan: &Plan, args: &RunArgs) -> anyhow::Result<Exit> {
    let chosen = choose(plan, &args.pipe)?;
    let stop = CancellationToken::new();
    listen(stop.clone())?;
    // A pipe to a broker does not care whether somebody reads the output of another.
    let only_stdout = chosen.iter().all(|pipe| plan.sinks[&pipe.to].target == Target::Stdout);
    let unread = if only_stdout { stop.clone() } else { CancellationToken::new() };
    // Before the sinks: what they measure must have somewhere to go.
    let until = stop.child_token();
    let serving = match &plan.http {
        Some(http) if !args.once => Some(publishers::listen(plan, http, &until).await?),
        _ => None,
    };
    let mut worst = Exit::Ok;
    let mut sinks = BTreeMap::new();
    for name in chosen.iter().map(|pipe| &pipe.to).collect::<BTreeSet<_>>() {
        let sink = &plan.sinks[name];
        match backends::sink(sink, &unread) {
            Ok(opened) => {
                sinks.insert(name.clone(), opened);
            }
            Err(error) => {
                let trouble = Trouble::at_sink("its pipes do not run: cannot use the sink", sink, &error);
                tracing::error!(sink = name, "{trouble}; {}", trouble.help());
                worst = trouble.exit;
            }
        }
    }
    let chosen: Vec<_> = chosen.into_iter().filter(|pipe| sinks.contains_key(&pipe.to)).collect();
    let owner = owner_name(plan.relay.as_deref());
    let mut tasks = JoinSet::new();
    for name in chosen.iter().map(|pipe| &pipe.from).collect::<BTreeSet<_>>() {
        let source = Arc::new(plan.sources[name].clone());
        let pipes = chosen.iter().filter(|pipe| pipe.from == *name);
        let pipes = pipes.map(|pipe| ((*pipe).clone(), sinks[&pipe.to].clone())).collect();
        let worker =
            SourceWorker { source, pipes, owner: owner.clone(), stop: stop.clone(), once: args.once };
        tasks.spawn(worker.work());
    }
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
    until.cancel();
    if let Some(serving) = serving {
        serving.ended().await;
    }
    tracing::info!("outboxd is down");
    Ok(worst)
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

fn host_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let host = host.trim();
    if host.is_empty() { "localhost".to_owned() } else { host.to_owned() }
}

/// A source with the pipes that read from it.
struct SourceWorker {
    source: Arc<SourcePlan>,
    pipes: Vec<(PipePlan, Arc<dyn Sink>)>,
    owner: String,
    stop: CancellationToken,
    once: bool,
}

impl SourceWorker {
    async fn work(self) -> Exit {
        let log = match self.connect().await {
            Ok(Some(log)) => log,
            Ok(None) => return Exit::Ok,
            Err(trouble) => {
                tracing::error!(source = self.source.name, "{trouble}; {}", trouble.help());
                return trouble.exit;
            }
        };
        // Ends with the pipes of this source, which may be before the others stop.
        let stop = self.stop.child_token();
        let _stop_retention = stop.clone().drop_guard();
        if let Some(age) = self.source.retention()
            && !self.once
        {
            tokio::spawn(retain(self.source.clone(), log.clone(), age, stop.clone()));
        }
        let mut running = JoinSet::new();
        let (mut lanes, mut names) = (Vec::new(), HashMap::new());
        for (pipe, sink) in &self.pipes {
            for (cursor, lane) in log.cursors(pipe, &self.owner).into_iter().zip(0..) {
                let built = build(pipe, cursor, sink.clone());
                let ended = CancellationToken::new();
                lanes.push(Lane { pipe: pipe.clone(), lane, stats: built.stats(), ended: ended.clone() });
                let run = run_pipe(pipe.clone(), self.source.clone(), built, stop.clone());
                let task = running.spawn(async move {
                    // Also by a panic.
                    let _ended = ended.drop_guard();
                    run.await
                });
                names.insert(task.id(), pipe.name.clone());
            }
        }
        let watched = stop.child_token();
        let watch = async {
            if !self.once {
                return Exit::Ok;
            }
            let exit = once::until_idle(&self.source, &log, &lanes, &watched).await;
            stop.cancel();
            exit
        };
        let finish = async {
            let mut worst = Exit::Ok;
            while let Some(ended) = running.join_next().await {
                let exit = ended.unwrap_or_else(|panic| {
                    tracing::error!(pipe = names.get(&panic.id()), %panic, "a pipe ended by a bug");
                    Exit::Failed
                });
                worst = if worst == Exit::Ok { exit } else { worst };
            }
            // Nothing is left to be watched.
            watched.cancel();
            worst
        };
        let (watched, finished) = tokio::join!(watch, finish);
        if watched == Exit::Ok { finished } else { watched }
    }

    /// Opens the outbox; nothing if the stop came first. What is out of reach is waited for, unless the run
    /// is to end by itself.
    async fn connect(&self) -> Result<Option<Log>, Trouble> {
        let mut failures = 0;
        loop {
            let error = tokio::select! {
                () = self.stop.cancelled() => return Ok(None),
                log = Log::open(&self.source) => match log {
                    Ok(log) => return Ok(Some(log)),
                    Err(error) => error,
                },
            };
            let trouble = Trouble::at_source("cannot open the source", &self.source, &error);
            if self.once || !error.is_temporary() {
                return Err(trouble);
            }
            failures += 1;
            if failures == 1 {
                tracing::warn!(source = self.source.name, "{trouble}; trying again");
            }
            tokio::select! {
                () = self.stop.cancelled() => return Ok(None),
                () = tokio::time::sleep(RECONNECT.delay(failures, rand::random())) => {}
            }
        }
    }
}

fn build(plan: &PipePlan, cursor: Arc<dyn outbox::Source>, sink: Arc<dyn Sink>) -> Pipe {
    let options = &plan.options;
    Pipe::new(cursor, sink)
        .name(&plan.name)
        .policy(options.policy.clone())
        .batch(options.batch as usize)
        .depth(options.depth as usize)
        .concurrency(options.concurrency as usize)
        .group(options.group)
        .idle(options.poll)
        .drain(options.drain)
}

async fn run_pipe(plan: PipePlan, source: Arc<SourcePlan>, pipe: Pipe, stop: CancellationToken) -> Exit {
    let stats: Arc<Stats> = pipe.stats();
    tracing::info!(pipe = plan.name, from = plan.from, to = plan.to, "started");
    let result = pipe.run(stop).await;
    let (delivered, retried, dead) = (stats.delivered(), stats.retried(), stats.dead());
    match result {
        Ok(()) => {
            tracing::info!(pipe = plan.name, delivered, retried, dead, "stopped");
            Exit::Ok
        }
        Err(error) => {
            let trouble = Trouble::at_source("the pipe has stopped", &source, &error);
            tracing::error!(pipe = plan.name, delivered, retried, dead, "{trouble}; {}", trouble.help());
            trouble.exit
        }
    }
}

/// Removes what is old, now and then, in small steps.
async fn retain(source: Arc<SourcePlan>, log: Log, age: Duration, stop: CancellationToken) {
    let mut failing = false;
    loop {
        let mut removed = 0;
        loop {
            match log.admin().purge(age, RETENTION_STEP, false).await {
                Ok(step) => {
                    failing = false;
                    removed += step;
                    if step < u64::from(RETENTION_STEP) || stop.is_cancelled() {
                        break;
                    }
                }
                // The pipes tell of it, and end.
                Err(error) if error.kind() == ErrorKind::NotMigrated => return,
                Err(error) => {
                    if !failing {
                        tracing::warn!(
                            source = source.name,
                            error = error.chain(),
                            "cannot remove what is old"
                        );
                    }
                    failing = true;
                    break;
                }
            }
        }
        if removed > 0 {
            tracing::info!(source = source.name, removed, "removed what is old");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RETENTION_PAUSE) => {}
        }
    }
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

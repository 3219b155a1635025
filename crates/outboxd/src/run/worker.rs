//! A source and the pipes that read from it, until they stop.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use outbox::figures::Figures;
use outbox::policy::Backoff;
use outbox::{Pipe, Sink, Source, Stats};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::upkeep::retain;
use crate::backends::Opened;
use crate::health::{Health, Watched, look_at_source};
use crate::once::{self, Lane};
use crate::plan::{PipePlan, SourcePlan};
use crate::traces::Traces;
use crate::trouble::{Exit, Trouble};
use crate::watch::Stands;

/// How long a source that cannot be opened is left alone.
pub const RECONNECT: Backoff = Backoff { first: Duration::from_secs(1), most: Duration::from_secs(30) };

/// A source with the pipes that read from it.
pub(super) struct SourceWorker {
    pub(super) source: Arc<SourcePlan>,
    pub(super) pipes: Vec<(PipePlan, Arc<dyn Sink>)>,
    pub(super) owner: String,
    pub(super) stop: CancellationToken,
    pub(super) once: bool,
    pub(super) health: Arc<Health>,
    /// Whether anybody can ask how the pipes are.
    pub(super) is_served: bool,
    /// Where spans go, if anywhere.
    pub(super) traces: Option<Arc<Traces>>,
}

impl SourceWorker {
    pub(super) async fn work(self) -> Exit {
        let opened = match self.connect().await {
            Ok(Some(opened)) => opened,
            Ok(None) => return Exit::Ok,
            Err(trouble) => {
                tracing::error!(source = self.source.name, "{trouble}; {}", trouble.help());
                self.watched().for_each(|pipe| pipe.ended(Some(trouble.to_string())));
                return trouble.exit;
            }
        };
        // Ends with the pipes of this source, which may be before the others stop.
        let stop = self.stop.child_token();
        let _stop_retention = stop.clone().drop_guard();
        if let (Some(age), Some(log), false) = (self.source.retention(), opened.log(), self.once) {
            tokio::spawn(retain(self.source.clone(), log.clone(), age, stop.clone()));
        }
        if let (true, Some(log)) = (self.is_served, opened.log()) {
            let pipes = self.watched().cloned().collect();
            let stands = Stands::new(&self.source.name);
            tokio::spawn(look_at_source(log.clone(), stands, pipes, self.owner.clone(), stop.clone()));
        }
        let mut running = JoinSet::new();
        let (mut lanes, mut names) = (Vec::new(), HashMap::new());
        for (pipe, sink) in &self.pipes {
            for (source, lane) in opened.sources(pipe, &self.owner).into_iter().zip(0..) {
                let mut built = build(pipe, source, sink.clone());
                if let Some(spans) = self.traces.as_ref().and_then(|traces| traces.of_pipe(&pipe.name)) {
                    built = built.watch(spans);
                }
                let ended = CancellationToken::new();
                lanes.push(Lane { pipe: pipe.clone(), lane, stats: built.stats(), ended: ended.clone() });
                let watched = self.health.pipe(&pipe.name).cloned();
                if let Some(watched) = &watched {
                    watched.started(built.stats());
                }
                let run = run_pipe(pipe.clone(), self.source.clone(), built, watched, stop.clone());
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
            let exit = once::until_idle(&self.source, &opened, &lanes, &watched).await;
            stop.cancel();
            exit
        };
        let finish = async {
            let mut worst = Exit::Ok;
            while let Some(ended) = running.join_next().await {
                let exit = ended.unwrap_or_else(|panic| {
                    let name = names.get(&panic.id());
                    tracing::error!(pipe = name, %panic, "a pipe ended by a bug");
                    if let Some(pipe) = name.and_then(|name| self.health.pipe(name)) {
                        pipe.ended(Some("it ended by a bug; the log has more".to_owned()));
                    }
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

    /// The pipes of this source, as others see them.
    fn watched(&self) -> impl Iterator<Item = &Arc<Watched>> {
        self.pipes.iter().filter_map(|(pipe, _)| self.health.pipe(&pipe.name))
    }

    /// Opens the source; nothing if the stop came first. What is out of reach is waited for, unless the run is to
    /// end by itself.
    async fn connect(&self) -> Result<Option<Opened>, Trouble> {
        let mut failures = 0;
        loop {
            let error = tokio::select! {
                () = self.stop.cancelled() => return Ok(None),
                opened = self.open() => match opened {
                    Ok(opened) => return Ok(Some(opened)),
                    Err(error) => error,
                },
            };
            let trouble = Trouble::at_source("cannot open the source", &self.source, &error);
            if self.once || !error.is_temporary() {
                return Err(trouble);
            }
            self.watched().for_each(|pipe| pipe.source_failed(trouble.to_string()));
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

    /// A broker is asked only where nobody would wait for it: a pipe does so by itself.
    async fn open(&self) -> outbox::Result<Opened> {
        let opened = Opened::open(&self.source).await?;
        if self.once && opened.log().is_none() {
            opened.check().await?;
        }
        Ok(opened)
    }
}

fn build(plan: &PipePlan, source: Arc<dyn Source>, sink: Arc<dyn Sink>) -> Pipe {
    let options = &plan.options;
    Pipe::new(source, sink)
        .name(&plan.name)
        .policy(options.policy.clone())
        .batch(options.batch as usize)
        .depth(options.depth as usize)
        .concurrency(options.concurrency as usize)
        .group(options.group)
        .idle(options.poll)
        .drain(options.drain)
        .watch(Figures::new(&plan.name))
}

async fn run_pipe(
    plan: PipePlan,
    source: Arc<SourcePlan>,
    pipe: Pipe,
    watched: Option<Arc<Watched>>,
    stop: CancellationToken,
) -> Exit {
    let ended = |why: Option<String>| watched.iter().for_each(|pipe| pipe.ended(why.clone()));
    let stats: Arc<Stats> = pipe.stats();
    tracing::info!(pipe = plan.name, from = plan.from, to = plan.to, "started");
    let result = pipe.run(stop).await;
    let (delivered, retried, dead) = (stats.delivered(), stats.retried(), stats.dead());
    match result {
        Ok(()) => {
            tracing::info!(pipe = plan.name, delivered, retried, dead, "stopped");
            ended(None);
            Exit::Ok
        }
        Err(error) => {
            let trouble = Trouble::at_source("the pipe has stopped", &source, &error);
            tracing::error!(pipe = plan.name, delivered, retried, dead, "{trouble}; {}", trouble.help());
            ended(Some(trouble.to_string()));
            trouble.exit
        }
    }
}

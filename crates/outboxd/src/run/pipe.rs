//! One pipe with its lanes: they run, rest while the pipe is paused, and run again.

use std::sync::Arc;

use outbox::figures::Figures;
use outbox::{Pipe, Sink, Source};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backends::Opened;
use crate::health::Watched;
use crate::once::Lane;
use crate::pauses::Pauses;
use crate::plan::{PipePlan, SourcePlan};
use crate::traces::Traces;
use crate::trouble::{Exit, Trouble};

/// What it takes to run a pipe.
pub(super) struct Runner {
    pub(super) plan: PipePlan,
    pub(super) source: Arc<SourcePlan>,
    pub(super) opened: Opened,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) owner: String,
    pub(super) watched: Option<Arc<Watched>>,
    pub(super) pauses: Pauses,
    /// Where spans go, if anywhere.
    pub(super) traces: Option<Arc<Traces>>,
    /// It ends by itself, and does not wait to be resumed.
    pub(super) once: bool,
}

/// The lanes of a pipe, from a start until they end or rest.
pub(super) struct Round {
    /// What others may see of them.
    pub(super) lanes: Vec<Lane>,
    running: JoinSet<Exit>,
    /// Ends this round, and not the pipe.
    rest: CancellationToken,
    worst: Exit,
}

impl Runner {
    /// Starts the lanes, unless the pipe is paused.
    pub(super) fn begin(&self, stop: &CancellationToken) -> Option<Round> {
        if self.pauses.of(&self.plan.name).is_some() {
            return None;
        }
        let rest = stop.child_token();
        let (mut lanes, mut running) = (Vec::new(), JoinSet::new());
        for (source, lane) in self.opened.sources(&self.plan, &self.owner).into_iter().zip(0..) {
            let mut pipe = build(&self.plan, source, self.sink.clone());
            if let Some(spans) = self.traces.as_ref().and_then(|traces| traces.of_pipe(&self.plan.name)) {
                pipe = pipe.watch(spans);
            }
            let (stats, ended) = (pipe.stats(), CancellationToken::new());
            lanes.push(Lane { pipe: self.plan.clone(), lane, stats: stats.clone(), ended: ended.clone() });
            if let Some(watched) = &self.watched {
                watched.started(stats);
            }
            let lane = LaneRun {
                plan: self.plan.clone(),
                source: self.source.clone(),
                watched: self.watched.clone(),
                rest: rest.clone(),
                stop: stop.clone(),
            };
            running.spawn(async move {
                // Also by a panic.
                let _ended = ended.drop_guard();
                lane.run(pipe).await
            });
        }
        Some(Round { lanes, running, rest, worst: Exit::Ok })
    }

    /// Goes on from the round that was begun until the stop, or until all lanes have ended; rests while the pipe is paused.
    pub(super) async fn run(self, begun: Option<Round>, stop: CancellationToken) -> Exit {
        let name = &self.plan.name;
        let (mut worst, mut begun) = (Exit::Ok, begun);
        loop {
            let Some(mut round) = begun.take().or_else(|| self.begin(&stop)) else {
                if self.once || !self.waits(&stop).await {
                    return worst;
                }
                tracing::info!(pipe = name, "resumed");
                continue;
            };
            let pause = tokio::select! {
                exit = self.end_of(&mut round) => return first_bad(worst, exit),
                pause = self.pauses.until_paused(name) => pause,
            };
            tracing::info!(pipe = name, by = pause.by, note = pause.note, "paused");
            round.rest.cancel();
            worst = first_bad(worst, self.end_of(&mut round).await);
            if stop.is_cancelled() {
                return worst;
            }
            self.watched.iter().for_each(|pipe| pipe.rests());
        }
    }

    /// Waits until somebody resumes the pipe; `false` after the stop.
    async fn waits(&self, stop: &CancellationToken) -> bool {
        if let Some(pause) = self.pauses.of(&self.plan.name) {
            tracing::info!(pipe = self.plan.name, by = pause.by, since = %pause.at, "rests until it is resumed");
        }
        stop.run_until_cancelled(self.pauses.until_resumed(&self.plan.name)).await.is_some()
    }

    /// Returns when all lanes have ended; asked again after it was dropped, it goes on.
    async fn end_of(&self, round: &mut Round) -> Exit {
        while let Some(ended) = round.running.join_next().await {
            let exit = ended.unwrap_or_else(|panic| {
                tracing::error!(pipe = self.plan.name, %panic, "a pipe ended by a bug");
                let why = "it ended by a bug; the log has more";
                self.watched.iter().for_each(|pipe| pipe.ended(Some(why.to_owned())));
                Exit::Failed
            });
            round.worst = first_bad(round.worst, exit);
        }
        round.worst
    }
}

/// What is told is what went wrong first.
pub(super) fn first_bad(first: Exit, then: Exit) -> Exit {
    if first == Exit::Ok { then } else { first }
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

/// One lane, from its start until it ends or rests.
struct LaneRun {
    plan: PipePlan,
    source: Arc<SourcePlan>,
    watched: Option<Arc<Watched>>,
    rest: CancellationToken,
    stop: CancellationToken,
}

impl LaneRun {
    async fn run(self, pipe: Pipe) -> Exit {
        let Self { plan, source, .. } = &self;
        let stats = pipe.stats();
        tracing::info!(pipe = plan.name, from = plan.from, to = plan.to, "started");
        let result = pipe.run(self.rest.clone()).await;
        let (delivered, retried, dead) = (stats.delivered(), stats.retried(), stats.dead());
        match result {
            Ok(()) => {
                tracing::info!(pipe = plan.name, delivered, retried, dead, "stopped");
                // Who rests has not ended.
                if self.stop.is_cancelled() || !self.rest.is_cancelled() {
                    self.ended(None);
                }
                Exit::Ok
            }
            Err(error) => {
                let trouble = Trouble::at_source("the pipe has stopped", source, &error);
                tracing::error!(pipe = plan.name, delivered, retried, dead, "{trouble}; {}", trouble.help());
                self.ended(Some(trouble.to_string()));
                trouble.exit
            }
        }
    }

    fn ended(&self, why: Option<String>) {
        self.watched.iter().for_each(|pipe| pipe.ended(why.clone()));
    }
}

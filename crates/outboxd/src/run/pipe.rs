//! One pipe with its lanes: they run, rest while the pipe is paused, and run again.

use std::sync::Arc;

use outbox::figures::Figures;
use outbox::pauses::Pause;
use outbox::{Pipe, Sink, Source};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backends::Opened;
use crate::health::Watched;
use crate::once::Lane;
use crate::pauses::{Pauses, sentence};
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
    /// Starts the lanes, unless the pipe is paused, or nobody knows yet whether it is.
    pub(super) fn begin(&self, stop: &CancellationToken) -> Option<Round> {
        if !self.pauses.lets_run(&self.plan.name) {
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
                if self.once {
                    // Paused since it was chosen.
                    self.pauses.of(name).iter().for_each(|pause| tell_left(name, pause));
                    return worst;
                }
                if stop.run_until_cancelled(self.waits()).await.is_none() {
                    return worst;
                }
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
            if self.once {
                // Whoever waits for the end knows these lanes only; resumed or not, the rest is for another run.
                tell_left(name, &pause);
                return worst;
            }
            self.watched.iter().for_each(|pipe| pipe.rests());
        }
    }

    /// Waits until it is known whether the pipe is paused, and if so until somebody resumes it.
    async fn waits(&self) {
        let name = &self.plan.name;
        self.pauses.until_known().await;
        let Some(pause) = self.pauses.of(name) else { return };
        tracing::info!(pipe = name, by = pause.by, since = %pause.at, "rests until it is resumed");
        self.pauses.until_resumed(name).await;
        tracing::info!(pipe = name, "resumed");
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

/// What is paused is no business of a run that ends by itself.
pub(super) fn tell_left(pipe: &str, pause: &Pause) {
    let why = sentence(pause);
    tracing::warn!(pipe, "left for later: {why}; `outboxd resume {pipe}` lets it go on");
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

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};
    use std::time::Duration;

    use outbox::memory::Recorder;
    use outbox::{Message, Outcome};

    use super::*;
    use crate::backends::Log;
    use crate::plan::Plan;

    /// A runner that ends by itself, over an outbox with one message.
    async fn runner(file: &std::path::Path, sink: Recorder, pauses: Pauses) -> Runner {
        let text = format!(
            "[connections]\nshop = \"sqlite:{}\"\n[sources.orders]\non = \"shop\"\n[sinks.screen]\nstdout = true\n\
             [pipes.relay]\nfrom = \"orders\"\nto = \"screen\"\n",
            file.display()
        );
        let plan = Plan::parse(file, &text, &|_| None).expect("it is valid").plan;
        let source = Arc::new(plan.sources["orders"].clone());
        let log = Log::connect(&source).await.expect("it is there");
        log.migrate().await.expect("it is ours");
        log.enqueue(Message::new("order.created", "{}")).await.expect("it can be written");
        Runner {
            plan: plan.pipes["relay"].clone(),
            source,
            opened: Opened::Log(log),
            sink: Arc::new(sink),
            owner: "here:1".to_owned(),
            watched: None,
            pauses,
            traces: None,
            once: true,
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_pipe_does_not_begin_before_it_is_known_whether_it_is_paused() {
        let folder = tempfile::tempdir().expect("there is room");
        let (sink, pauses, stop) = (Recorder::new(), Pauses::default(), CancellationToken::new());
        let mut runner = runner(&folder.path().join("shop.db"), sink.clone(), pauses.clone()).await;
        runner.once = false;
        assert!(runner.begin(&stop).is_none());
        let running = tokio::spawn(runner.run(None, stop.clone()));
        pauses.put([]);
        while sink.received().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(60), running).await;
        assert_eq!(ended.expect("it ends").expect("no panic"), Exit::Ok);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_run_that_ends_by_itself_does_not_begin_again_after_a_pause() {
        let folder = tempfile::tempdir().expect("there is room");
        let (sink, pauses, stop) = (Recorder::new(), Pauses::default(), CancellationToken::new());
        pauses.put([]);
        let ((asked, is_asked), (go, may_go)) = (mpsc::channel(), mpsc::channel());
        let (asked, may_go) = (Mutex::new(asked), Mutex::new(may_go));
        sink.judge_by(move |_| {
            let _ = asked.lock().map(|asked| asked.send(()));
            let _ = may_go.lock().map(|go| go.recv_timeout(Duration::from_secs(60)));
            Outcome::Delivered
        });
        let runner = runner(&folder.path().join("shop.db"), sink.clone(), pauses.clone()).await;
        let round = runner.begin(&stop).expect("it is not paused");
        let rest = round.rest.clone();
        let running = tokio::spawn(runner.run(Some(round), stop.clone()));
        let asked = tokio::task::spawn_blocking(move || is_asked.recv_timeout(Duration::from_secs(60)));
        asked.await.expect("no panic").expect("the sink is asked");
        // Paused, and resumed before the last delivery has ended.
        let at = jiff::Timestamp::UNIX_EPOCH;
        pauses.put([Pause { pipe: "relay".to_owned(), by: "ann".to_owned(), at, note: None }]);
        rest.cancelled().await;
        pauses.put([]);
        go.send(()).expect("the sink waits");
        let ended = tokio::time::timeout(Duration::from_secs(60), running).await;
        assert_eq!(ended.expect("it ends").expect("no panic"), Exit::Ok);
        assert_eq!(sink.received().len(), 1, "what was begun is finished");
        stop.cancel();
    }
}

//! A source and the pipes that read from it, until they stop.

use std::sync::Arc;
use std::time::Duration;

use outbox::Sink;
use outbox::policy::Backoff;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::pipe::{Runner, first_bad, tell_left};
use super::upkeep::retain;
use crate::backends::{Log, Opened};
use crate::health::{Health, Watched, look_at_source};
use crate::once;
use crate::pauses::Pauses;
use crate::plan::{PipePlan, SourcePlan};
use crate::traces::Traces;
use crate::trouble::{Exit, Trouble};
use crate::watch::{Pools, Stands, reachable};

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
    pub(super) pauses: Pauses,
    /// Whether anybody asks how the pipes are.
    pub(super) is_watched: bool,
    pub(super) pools: Arc<Pools>,
    /// Where spans go, if anywhere.
    pub(super) traces: Option<Arc<Traces>>,
}

impl SourceWorker {
    pub(super) async fn work(mut self) -> Exit {
        // Who waits for nobody must hear at once which are paused, or begin none.
        let mut heard = Ok(());
        if self.once {
            let answer = self.stop.run_until_cancelled(self.pauses.first_answer()).await;
            let Some(answer) = answer else { return Exit::Ok };
            heard = answer;
            self.leave_paused();
            if self.pipes.is_empty() {
                return Exit::Ok;
            }
        }
        let opened = match self.connect().await {
            Ok(Some(opened)) => opened,
            Ok(None) => return Exit::Ok,
            Err(trouble) => {
                tracing::error!(source = self.source.name, "{trouble}; {}", trouble.help());
                self.watched().for_each(|pipe| pipe.ended(Some(trouble.to_string())));
                self.tell_reachable(None);
                return trouble.exit;
            }
        };
        if let Err(exit) = heard {
            tracing::error!(
                source = self.source.name,
                "left for later: it is not known which pipes are paused"
            );
            return exit;
        }
        self.watched().for_each(|pipe| pipe.source_opened());
        // Ends with the pipes of this source, which may be before the others stop.
        let stop = self.stop.child_token();
        let _stop_retention = stop.clone().drop_guard();
        if let (Some(age), Some(log), false) = (self.source.retention(), opened.log(), self.once) {
            tokio::spawn(retain(self.source.clone(), log.clone(), age, stop.clone()));
        }
        if let Some(database) = opened.log().and_then(Log::database) {
            self.pools.add(&self.source.connection.name, database);
        }
        if let (true, Some(log)) = (self.is_watched, opened.log()) {
            let pipes = self.watched().cloned().collect();
            let stands = Stands::new(&self.source.name);
            tokio::spawn(look_at_source(log.clone(), stands, pipes, self.owner.clone(), stop.clone()));
        }
        let mut running = JoinSet::new();
        let mut lanes = Vec::new();
        for (pipe, sink) in &self.pipes {
            let runner = self.runner(pipe, sink, &opened);
            let round = runner.begin(&stop);
            lanes.extend(round.iter().flat_map(|round| round.lanes.iter().cloned()));
            running.spawn(runner.run(round, stop.clone()));
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
                    tracing::error!(source = self.source.name, %panic, "a pipe ended by a bug");
                    Exit::Failed
                });
                worst = first_bad(worst, exit);
            }
            // Nothing is left to be watched.
            watched.cancel();
            worst
        };
        let (watched, finished) = tokio::join!(watch, finish);
        first_bad(watched, finished)
    }

    /// What is paused is no business of a run that ends by itself.
    fn leave_paused(&mut self) {
        self.pipes.retain(|(pipe, _)| {
            let Some(pause) = self.pauses.of(&pipe.name) else { return true };
            tell_left(&pipe.name, &pause);
            false
        });
    }

    fn runner(&self, pipe: &PipePlan, sink: &Arc<dyn Sink>, opened: &Opened) -> Runner {
        Runner {
            plan: pipe.clone(),
            source: self.source.clone(),
            opened: opened.clone(),
            sink: sink.clone(),
            owner: self.owner.clone(),
            watched: self.health.pipe(&pipe.name).cloned(),
            pauses: self.pauses.clone(),
            traces: self.traces.clone(),
            once: self.once,
        }
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
            self.tell_reachable(Some(false));
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

    /// Nobody looks at an outbox before it is open, so whoever opens it tells. A broker is looked at in any case.
    fn tell_reachable(&self, is_reachable: Option<bool>) {
        if !self.source.is_on_broker() {
            reachable(&self.source.name, is_reachable);
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;
    use crate::plan::Plan;

    /// A worker of a source in a database where nobody listens.
    fn worker(url: &str, stop: &CancellationToken) -> SourceWorker {
        let text = format!(
            "[connections]\nshop = \"{url}\"\n[sources.orders]\non = \"shop\"\n[sinks.screen]\nstdout = true\n\
             [pipes.relay]\nfrom = \"orders\"\nto = \"screen\"\n"
        );
        let plan = Plan::parse(Path::new("/srv/outboxd.toml"), &text, &|_| None).expect("it is valid").plan;
        let pipe = plan.pipes["relay"].clone();
        SourceWorker {
            source: Arc::new(plan.sources["orders"].clone()),
            health: Arc::new(Health::new("here:1", &plan, &[&pipe])),
            pipes: vec![(pipe, Arc::new(outbox::memory::Recorder::new()) as Arc<dyn Sink>)],
            owner: "here:1".to_owned(),
            stop: stop.clone(),
            once: false,
            pauses: Pauses::default(),
            is_watched: true,
            pools: Arc::new(Pools::new(Arc::default())),
            traces: None,
        }
    }

    #[tokio::test]
    async fn d7_a_database_that_is_down_at_the_start_is_told_as_unreachable() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let shown = recorder.handle();
        let _recorded = metrics::set_default_local_recorder(&recorder);
        let stop = CancellationToken::new();
        let worker = worker("postgres://app:x@127.0.0.1:1/shop", &stop);
        let told = async {
            while !shown.render().contains("outbox_source_reachable{source=\"orders\"} 0\n") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            stop.cancel();
        };
        let both = async { tokio::join!(worker.work(), told) };
        let (exit, ()) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("it is told");
        assert_eq!(exit, Exit::Ok);
    }

    #[tokio::test]
    async fn d7_a_source_that_cannot_be_used_ends_its_pipes_and_is_not_told_as_away() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let shown = recorder.handle();
        let _recorded = metrics::set_default_local_recorder(&recorder);
        let worker = worker("sqlite:/nowhere/at/all/shop.db", &CancellationToken::new());
        let health = worker.health.clone();
        assert_ne!(worker.work().await, Exit::Ok);
        assert!(shown.render().contains("outbox_source_reachable{source=\"orders\"} NaN\n"));
        let phase = health.pipe("relay").expect("it is watched").view().phase;
        assert!(matches!(phase, crate::health::Phase::Ended(Some(_))), "{phase:?}");
    }
}

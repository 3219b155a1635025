//! THE LOOP: claim → deliver → judge → settle.
//!
//! A relay is a pipe from an outbox to a broker; a consumer is a pipe to a handler. The path of a message is
//! [`Run::go`], top to bottom. What an outcome means is decided in `policy.rs`, who may go next in
//! `lineup.rs`; here is only what happens when.

use std::future::pending;
use std::panic::resume_unwind;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::task::JoinError;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use crate::error::{Error, ErrorKind, Result};
use crate::failpoint;
use crate::lineup::{Batch, Decided, Lineup};
use crate::policy::{Backoff, Breaker, Change, Outage, Verdict};
use crate::setup::{BUSY_PAUSE, Pipe};
use crate::sink::{Cause, Outcome, code};
use crate::source::{Claim, Source};
use crate::stats::Stats;
use crate::tell::{self, Cycle};
use crate::watch::Judged;

/// How long a source that fails is left alone.
const SOURCE_BACKOFF: Backoff = Backoff { first: Duration::from_millis(100), most: Duration::from_secs(10) };

/// How long a stop waits for the last settle, and for deliveries that it has ended.
const END_LIMIT: Duration = Duration::from_secs(1);

/// How long a stop waits for the source to be closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

impl Pipe {
    /// Runs until `stop`, then drains what is in flight and leaves nothing claimed.
    ///
    /// Outages of either side are waited out. An error is something that only a person can change: a missing
    /// table, a refused login.
    pub async fn run(self, stop: CancellationToken) -> Result<()> {
        let source = self.source.clone();
        let (name, stats) = (self.name.clone(), self.stats.clone());
        let mut run = Run::new(self);
        let result = run.go(stop).await;
        // Nothing may go on behind the back of whoever has the claims next.
        run.end().await;
        failpoint::pass("closing");
        // Also after an error: whatever is held should not wait for a lease to run out.
        let closed = tokio::time::timeout(CLOSE_LIMIT, source.close()).await;
        let silent = || Err(Error::new(ErrorKind::Timeout, "no answer"));
        if let Err(error) = closed.unwrap_or_else(|_| silent()) {
            let error = error.chain();
            tracing::warn!(pipe = name, error, "could not close the source; its lease will run out");
        }
        stats.forget_in_flight();
        failpoint::pass("closed");
        result
    }
}

/// Why claims are given up.
const LEASE_OVER: &str = "the lease ran out before everything was delivered";

/// What the intake brought.
enum Intake {
    /// The result of claim number `.0`.
    Claimed(u64, Result<Claim>),
    /// There may be work.
    Rested,
}

/// What a sink told of a batch.
struct Delivery {
    era: u64,
    batch: Batch,
    /// None if it was somebody else's before it was begun.
    outcomes: Option<Vec<Outcome>>,
    took: Duration,
}

struct Run {
    pipe: Pipe,
    lineup: Lineup,
    breaker: Breaker,
    intake: Option<BoxFuture<'static, Intake>>,
    /// Whether the intake is a claim, which must not be dropped half-way, or just a pause.
    claiming: bool,
    /// Each in a task of its own: a batch is put into its envelopes while the next one is read.
    deliveries: FuturesUnordered<AbortOnDropHandle<Delivery>>,
    settling: Option<BoxFuture<'static, (Decided, Result<()>)>>,
    newest_claim: u64,
    /// Deliveries of an older era belong to claims that were lost; their outcomes mean nothing any more.
    era: u64,
    /// Claims were lost: nothing new is begun before what belongs to them has ended, lest a key overtakes itself.
    afresh: bool,
    pause: Duration,
    source_failures: u32,
    stopping: bool,
    cycle: Cycle,
}

impl Run {
    fn new(pipe: Pipe) -> Self {
        Self {
            lineup: Lineup::new(pipe.policy.order, pipe.group),
            breaker: Breaker::new(&pipe.policy),
            intake: None,
            claiming: false,
            deliveries: FuturesUnordered::new(),
            settling: None,
            newest_claim: 0,
            era: 0,
            afresh: false,
            pause: BUSY_PAUSE,
            source_failures: 0,
            stopping: false,
            cycle: Cycle::new(&pipe.name, pipe.stats.clone()),
            pipe,
        }
    }

    /// The path of a message: claimed, delivered, judged, settled.
    async fn go(&mut self, stop: CancellationToken) -> Result<()> {
        let mut give_up_at = None;
        // Told before it has begun: then nothing is claimed.
        self.stopping = stop.is_cancelled();
        loop {
            if self.lineup.is_expired() {
                self.abandon(LEASE_OVER);
            }
            if self.stopping || self.breaker.probe_at().is_some() {
                self.lineup.release();
            }
            self.start_settle();
            self.start_deliveries();
            self.start_intake();
            if self.stopping && self.is_through() {
                return Ok(());
            }
            let cycle_end = self.cycle.look();
            tokio::select! {
                biased;
                () = stop.cancelled(), if !self.stopping => {
                    self.stopping = true;
                    give_up_at = Some(Instant::now() + self.pipe.drain);
                    if !self.claiming {
                        self.intake = None;
                    }
                    tracing::info!(pipe = self.pipe.name, in_flight = self.lineup.claims(), "stopping: draining");
                }
                () = until(give_up_at) => return self.give_up().await,
                // First, so that nothing is claimed for a sink that has just said that it is away.
                Some(delivery) = self.deliveries.next(), if !self.deliveries.is_empty() => {
                    self.on_delivered(delivery);
                    while let Some(Some(delivery)) = self.deliveries.next().now_or_never() {
                        self.on_delivered(delivery);
                    }
                }
                (decided, result) = next(&mut self.settling) => self.on_settled(decided, result)?,
                intake = next(&mut self.intake) => self.on_intake(intake)?,
                // Nothing else may wake us while the source and the sink are silent.
                () = until(self.lineup.expires_at()) => {}
                () = until(cycle_end) => {}
                () = until(self.breaker.probe_at()), if self.is_through() && !self.stopping => {
                    self.breaker.start_probe();
                }
            }
        }
    }

    /// Nothing is claimed, out or being settled.
    fn is_through(&self) -> bool {
        self.lineup.claims() == 0 && self.settling.is_none() && self.deliveries.is_empty() && !self.claiming
    }

    fn start_settle(&mut self) {
        if self.settling.is_some() {
            return;
        }
        let Some(decided) = self.lineup.take_decided() else { return };
        let source = self.pipe.source.clone();
        let (name, stats) = (self.pipe.name.clone(), self.pipe.stats.clone());
        self.settling = Some(
            async move {
                failpoint::pass("settling");
                let result = settle(&*source, &decided, &name, &stats).await;
                failpoint::pass("settled");
                (decided, result)
            }
            .boxed(),
        );
    }

    fn start_deliveries(&mut self) {
        while self.deliveries.len() < self.pipe.concurrency {
            let Some(batch) = self.lineup.next_batch(self.pipe.batch) else { return };
            let (sink, era) = (self.pipe.sink.clone(), self.era);
            let delivery = async move {
                failpoint::pass("delivering");
                let start = Instant::now();
                let outcomes = match batch.is_expired() {
                    true => None,
                    false => Some(sink.deliver(&batch.messages).await),
                };
                Delivery { era, batch, outcomes, took: start.elapsed() }
            };
            self.deliveries.push(AbortOnDropHandle::new(tokio::spawn(delivery.in_current_span())));
        }
    }

    fn start_intake(&mut self) {
        if self.intake.is_some() || self.stopping {
            return;
        }
        if self.afresh {
            self.start_afresh();
            return;
        }
        let in_flight = self.lineup.claims() + usize::from(self.settling.is_some());
        let (may_claim, limit) = if self.breaker.is_closed() {
            (in_flight < self.pipe.depth, self.pipe.batch)
        } else {
            (self.breaker.is_probing() && self.is_through(), 1)
        };
        if !may_claim {
            return;
        }
        self.newest_claim += 1;
        self.claiming = true;
        let (source, number) = (self.pipe.source.clone(), self.newest_claim);
        self.intake = Some(
            async move {
                failpoint::pass("claiming");
                Intake::Claimed(number, source.claim(limit).await)
            }
            .boxed(),
        );
    }

    /// Once nothing of the lost claims is out, the source is closed, and with it whatever it thinks is claimed.
    fn start_afresh(&mut self) {
        if !self.deliveries.is_empty() {
            return;
        }
        self.afresh = false;
        let source = self.pipe.source.clone();
        self.intake = Some(
            async move {
                if let Err(error) = source.close().await {
                    tracing::debug!(error = error.chain(), "could not close the source");
                }
                Intake::Rested
            }
            .boxed(),
        );
    }

    fn rest(&mut self, pause: Duration) {
        let source = self.pipe.source.clone();
        self.intake = Some(
            async move {
                source.wait(pause).await;
                Intake::Rested
            }
            .boxed(),
        );
    }

    fn on_intake(&mut self, intake: Intake) -> Result<()> {
        self.claiming = false;
        let (number, mut claim) = match intake {
            Intake::Rested => return Ok(()),
            // Claimed before the loss was known.
            Intake::Claimed(..) if self.afresh => return Ok(()),
            Intake::Claimed(number, Ok(claim)) => (number, claim),
            Intake::Claimed(_, Err(error)) => return self.on_source_error(error),
        };
        if self.source_failures > 0 {
            tracing::info!(pipe = self.pipe.name, "the source is back");
            self.source_failures = 0;
        }
        self.pipe.stats.set_source_away(None);
        let (count, skipped) = (claim.messages.len(), claim.skipped());
        self.pipe.stats.add_skipped(skipped);
        if count + skipped == 0 {
            self.rest(self.pause);
            self.pause = (self.pause * 2).min(self.pipe.idle);
            return Ok(());
        }
        self.pause = BUSY_PAUSE;
        if count == 0 {
            // To skip was work, and there may be more right behind it.
            return Ok(());
        }
        failpoint::pass("claimed");
        self.pipe.stats.add_claimed(count);
        self.pipe.watchers.iter().for_each(|watcher| watcher.claimed(&claim.messages));
        if self.pipe.sink.takes_defects() {
            claim.let_defects_pass();
        }
        for (index, cause) in claim.defects() {
            tell::verdict(&self.pipe.name, &claim.messages[*index], &Verdict::defect(cause.clone()));
        }
        self.lineup.admit(number, claim);
        if count + skipped < self.pipe.batch && self.breaker.is_closed() {
            // The source had no more: let a few arrive, rather than ask for them one by one.
            self.rest(BUSY_PAUSE);
        }
        Ok(())
    }

    fn on_source_error(&mut self, error: Error) -> Result<()> {
        if error.kind() == ErrorKind::Lost {
            self.abandon(&error.chain());
            return Ok(());
        }
        if !error.is_temporary() {
            return Err(error);
        }
        self.source_failures += 1;
        self.pipe.stats.set_source_away(Some(error.chain()));
        if self.source_failures == 1 {
            let (error, help) = (error.chain(), error.advice());
            tracing::warn!(pipe = self.pipe.name, error, help, "the source does not answer; trying again");
        }
        let pause = SOURCE_BACKOFF.delay(self.source_failures, (self.pipe.jitter)());
        self.intake = Some(sleep(pause).map(|()| Intake::Rested).boxed());
        Ok(())
    }

    fn on_delivered(&mut self, delivery: Result<Delivery, JoinError>) {
        failpoint::pass("delivered");
        let delivery = match delivery.map_err(JoinError::try_into_panic) {
            Ok(delivery) => delivery,
            // A sink that panics takes its pipe along.
            Err(Ok(panic)) => resume_unwind(panic),
            // The runtime is ending, and we with it.
            Err(Err(_)) => return,
        };
        if delivery.era != self.era {
            return;
        }
        match delivery.outcomes {
            Some(outcomes) => self.judge(&delivery.batch, outcomes, delivery.took),
            None => self.abandon(LEASE_OVER),
        }
    }

    /// Turns outcomes into verdicts, and tells the breaker.
    fn judge(&mut self, batch: &Batch, outcomes: Vec<Outcome>, took: Duration) {
        let missing = || Outcome::Unavailable(Cause::new(code::UNREACHABLE, "the sink told no outcome"));
        let mut outcomes = outcomes.into_iter();
        for (ticket, message) in batch.tickets.iter().zip(&batch.messages) {
            let outcome = outcomes.next().unwrap_or_else(missing);
            let jitter = (self.pipe.jitter)();
            let verdict = if self.breaker.covers(&outcome) {
                Verdict::Released
            } else {
                self.pipe.policy.judge(&outcome, message.attempts, jitter)
            };
            tell::verdict(&self.pipe.name, message, &verdict);
            let judged = Judged { message, outcome: &outcome, verdict: &verdict, took };
            self.pipe.watchers.iter().for_each(|watcher| watcher.judged(&judged));
            self.lineup.decide(*ticket, message.key.as_deref(), verdict);
            if self.pipe.policy.outage == Outage::Wait {
                let change = self.breaker.observe(&outcome, message.attempts, Instant::now(), jitter);
                self.on_breaker(change);
            }
        }
    }

    fn on_breaker(&mut self, change: Option<Change>) {
        let Some(change) = change else { return };
        tell::breaker(&self.pipe.name, &change, self.pipe.stats.open_cause().is_some());
        self.pipe.stats.set_open_cause(match change {
            Change::Opened { cause, .. } => Some(cause),
            Change::Closed => None,
        });
    }

    fn on_settled(&mut self, decided: Decided, result: Result<()>) -> Result<()> {
        match result {
            Ok(()) => {
                self.pipe.stats.set_source_away(None);
                self.pipe.stats.count(&decided.verdicts);
                self.cycle.note(&decided.verdicts);
                self.lineup.settled(decided.number, self.newest_claim, self.claiming);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Lost => {
                self.abandon(&error.chain());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Everything in the pipe is somebody else's now. What is out cannot be called back; its outcome is ignored.
    fn abandon(&mut self, why: &str) {
        tracing::warn!(
            pipe = self.pipe.name,
            claims = self.lineup.claims(),
            why,
            "claims were lost; starting afresh"
        );
        self.era += 1;
        self.afresh = true;
        self.lineup.clear();
        self.pipe.stats.forget_in_flight();
        self.settling = None;
        if !self.claiming {
            self.intake = None;
        }
    }

    /// The time for draining is over: what is out is unknown, so it is released and may come again.
    async fn give_up(&mut self) -> Result<()> {
        tracing::warn!(pipe = self.pipe.name, limit = ?self.pipe.drain, "draining took too long; leaving");
        self.end_deliveries().await;
        // Closing the source gives back what is not settled; what was decided is worth one more try.
        if let Some(settling) = self.settling.take() {
            let _ = tokio::time::timeout(END_LIMIT, settling).await;
        }
        Ok(())
    }

    /// Ends whatever is under way.
    async fn end(mut self) {
        (self.intake, self.settling) = (None, None);
        self.end_deliveries().await;
    }

    /// A task that is told to end does so at its next step: that is waited for, unless it hangs.
    async fn end_deliveries(&mut self) {
        self.deliveries.iter().for_each(AbortOnDropHandle::abort);
        let ended = async { while self.deliveries.next().await.is_some() {} };
        let _ = tokio::time::timeout(END_LIMIT, ended).await;
    }
}

/// Settles, again and again while the source does not answer and the claim is still ours.
async fn settle(source: &dyn Source, decided: &Decided, pipe: &str, stats: &Stats) -> Result<()> {
    let mut failures = 0;
    loop {
        let error = match source.settle(&decided.claim, &decided.verdicts).await {
            Err(error) if error.is_temporary() => error,
            other => return other,
        };
        if decided.claim.is_expired() {
            return Err(Error::new(ErrorKind::Lost, "the lease ran out before the settle got through")
                .caused_by(error));
        }
        failures += 1;
        stats.set_source_away(Some(error.chain()));
        if failures == 1 {
            tracing::warn!(pipe, error = error.chain(), "could not settle; trying again");
        }
        sleep(SOURCE_BACKOFF.delay(failures, 0.0)).await;
    }
}

/// The slot's future, taken out of it when it ends; never ends while the slot is empty.
async fn next<T>(slot: &mut Option<BoxFuture<'static, T>>) -> T {
    let Some(future) = slot else { return pending().await };
    let value = future.await;
    *slot = None;
    value
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}

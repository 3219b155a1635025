//! One run of a pipe, as a process would be: it can be stopped, killed, or frozen and thawed.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use outbox::{ErrorKind, Pipe, Result};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::dice::Dice;
use crate::sink::Moody;
use crate::source::Shaky;
use crate::world::World;

/// What a stop may take beyond the draining: to close the source, and one more try to settle.
const LEAVING: Duration = Duration::from_secs(7);

pub(crate) struct Relay {
    number: usize,
    world: Arc<World>,
    stop: CancellationToken,
    task: JoinHandle<Result<()>>,
    ice: Arc<Mutex<Option<Instant>>>,
    thawed: Instant,
}

impl Relay {
    pub(crate) fn start(world: &Arc<World>) -> Self {
        let (number, mut jitter) = {
            let mut state = world.lock();
            (state.ledger.start(), Dice::new(state.dice.roll()))
        };
        let (stop, ice) = (CancellationToken::new(), Arc::new(Mutex::new(None)));
        let pipe = Pipe::new(Shaky::new(number, world.clone()), Moody::new(number, world.clone()));
        let run = world.script.apply(pipe).jitter(move || jitter.unit()).run(stop.clone());
        let renewal = renew(number, world.clone());
        let life = Box::pin(async move {
            tokio::select! {
                biased;
                result = run => result,
                () = renewal => Ok(()),
            }
        });
        let task = tokio::spawn(Freezable { life, ice: ice.clone(), frozen: None });
        Self { number, world: world.clone(), stop, task, ice, thawed: Instant::now() }
    }

    /// Nothing of it runs for a while, and then it goes on as if no time had passed.
    pub(crate) fn freeze(&mut self, time: Duration) {
        self.world.lock().ledger.note(|| format!("relay {} is frozen for {time:?}", self.number));
        self.thawed = Instant::now() + time;
        *self.ice.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.thawed);
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Kills it, in the middle of whatever it does.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
        self.world.lock().ledger.crashed(self.number);
    }

    /// Tells it to stop, and waits until it has.
    pub(crate) async fn stop(self) {
        let heard = self.thawed.max(Instant::now());
        self.world.lock().ledger.stopping(self.number, heard);
        self.stop.cancel();
        let latest = heard + self.world.script.drain + LEAVING;
        self.end(latest).await;
    }

    /// Takes note of its end, which should be near.
    pub(crate) async fn end(mut self, latest: Instant) {
        let ended = tokio::time::timeout_at(latest, &mut self.task).await;
        let mut state = self.world.lock();
        match ended {
            Ok(Ok(result)) => {
                let error = result.err().filter(|error| error.kind() != ErrorKind::Denied);
                if let Some(error) = error {
                    state
                        .ledger
                        .violated("P11", format!("relay {} has ended: {}", self.number, error.chain()));
                }
                state.ledger.ended(self.number);
            }
            Ok(Err(panic)) => {
                state.ledger.violated("P11", format!("relay {} has panicked: {panic}", self.number))
            }
            Err(_) => state.ledger.violated("P10", format!("relay {} does not stop", self.number)),
        }
        drop(state);
        self.task.abort();
    }
}

/// Renews the lease as long as the relay lives, as backends do.
async fn renew(relay: usize, world: Arc<World>) {
    loop {
        sleep(world.script.lease / 3).await;
        if !world.strikes(world.script.faults.source_away) {
            world.lock().ledger.renew(relay, Instant::now());
        }
    }
}

/// A future that is not asked while it is frozen.
struct Freezable<F> {
    life: Pin<Box<F>>,
    ice: Arc<Mutex<Option<Instant>>>,
    frozen: Option<Pin<Box<Sleep>>>,
}

impl<F: Future> Future for Freezable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        loop {
            if let Some(frozen) = &mut self.frozen {
                if frozen.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.frozen = None;
            }
            let until = self.ice.lock().unwrap_or_else(PoisonError::into_inner).take();
            match until {
                Some(until) => self.frozen = Some(Box::pin(sleep_until(until))),
                None => return self.life.as_mut().poll(context),
            }
        }
    }
}

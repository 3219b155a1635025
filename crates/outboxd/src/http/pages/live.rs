//! What goes on, sampled every few seconds for the charts, and told to every open page by server-sent events.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::{Notify, watch};
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;

use super::doctor::LastLook;
use super::history::{History, Minute, Point, Sample};
use super::known::Known;
use super::lately::Told;
use super::rates::Rates;
use super::stands::Stands;
use crate::health::Health;
use crate::http::Shared;
use crate::http::person::Person;
use crate::ops::Office;
use crate::ops::queues::{Queues, queues};

/// How often a sample is taken.
const PAUSE: Duration = Duration::from_secs(5);

/// What is dead is counted at every so many samples.
const COUNTED_EVERY: u64 = 3;

/// A stream ends after this time, and the browser asks again: nobody who has signed out is told for longer.
const STREAM: Duration = Duration::from_secs(5 * 60);

/// What open pages are told at every sample.
#[derive(Debug, Clone, Serialize)]
struct Tick {
    level: &'static str,
    sentence: String,
    point: Option<Point>,
}

/// What was read last, and when.
type Kept<T> = tokio::sync::Mutex<Option<(Instant, Arc<T>)>>;

/// What was read in this tick.
fn of_this_tick<T>(kept: &Option<(Instant, Arc<T>)>) -> Option<Arc<T>> {
    kept.as_ref().filter(|(at, _)| at.elapsed() < PAUSE).map(|(_, read)| Arc::clone(read))
}

/// The last hour, and who listens.
pub struct Board {
    history: Mutex<History>,
    ticks: watch::Sender<Option<Tick>>,
    pub(super) known: Mutex<Known>,
    stale: Notify,
    queues: Kept<Queues>,
    stands: Kept<Stands>,
    pub(super) lately: Arc<Told>,
    /// The depth of queues, by source and queue.
    depths: Mutex<Rates<(String, String)>>,
    /// The deliveries of instances.
    deliveries: Mutex<Rates<String>>,
    pub(super) last_look: LastLook,
    stop: CancellationToken,
}

impl Board {
    /// An empty one; streams end with `stop`.
    pub fn new(stop: CancellationToken) -> Self {
        Self {
            history: Mutex::default(),
            ticks: watch::Sender::new(None),
            known: Mutex::default(),
            stale: Notify::new(),
            queues: Kept::default(),
            stands: Kept::default(),
            lately: Arc::default(),
            depths: Mutex::default(),
            deliveries: Mutex::default(),
            last_look: LastLook::default(),
            stop,
        }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody has done something to what is counted: it is counted anew at once.
    pub(super) async fn changed(&self) {
        *self.queues.lock().await = None;
        *self.stands.lock().await = None;
        self.stale.notify_one();
    }

    /// What lies at the brokers, asked for once in a tick however many pages are open: each look opens connections. Whoever
    /// comes meanwhile waits for the same answer, which has a limit.
    pub(in crate::http) async fn queues(&self, office: &Office) -> Arc<Queues> {
        let mut kept = self.queues.lock().await;
        if let Some(queues) = of_this_tick(&kept) {
            return queues;
        }
        let queues = Arc::new(queues(office).await);
        let at = Timestamp::now();
        for (source, queue) in
            queues.sources.iter().flat_map(|one| one.queues.iter().map(move |queue| (one, queue)))
        {
            self.depths().note(&(source.source.clone(), queue.name.clone()), at, queue.messages);
        }
        *kept = Some((Instant::now(), Arc::clone(&queues)));
        queues
    }

    /// How the pipes stand in their outboxes, asked for once in a tick as well.
    pub(super) async fn stands(&self, office: &Office) -> Arc<Stands> {
        let mut kept = self.stands.lock().await;
        if let Some(stands) = of_this_tick(&kept) {
            return stands;
        }
        let stands = Arc::new(Stands::read(office, self).await);
        *kept = Some((Instant::now(), Arc::clone(&stands)));
        stands
    }

    pub(super) fn depths(&self) -> MutexGuard<'_, Rates<(String, String)>> {
        self.depths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn deliveries(&self) -> MutexGuard<'_, Rates<String>> {
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last minutes, newest first.
    pub(super) fn minutes(&self, most: usize) -> Vec<Minute> {
        self.history().minutes(most)
    }

    fn sample(&self, health: &Health) {
        let judged = health.judged();
        let views = || judged.iter().map(|(view, _)| view);
        let sample = Sample {
            at: Timestamp::now().as_second(),
            delivered: views().map(|view| view.delivered).sum(),
            failed: views().map(|view| view.failed).sum(),
            lag: views().filter_map(|view| view.lag).max().map(|lag| lag.as_secs_f64()),
        };
        let truth = super::truth::truth(&judged, &self.known());
        let mut history = self.history();
        history.push(sample);
        let tick = Tick { level: truth.level.as_str(), sentence: truth.sentence, point: history.last() };
        drop(history);
        self.ticks.send_replace(Some(tick));
    }
}

/// Samples until the stop.
pub async fn keep(board: Arc<Board>, health: Arc<Health>, office: Arc<Office>) {
    let stop = board.stop.clone();
    let mut asked = false;
    for round in 0_u64.. {
        // What is dead changes seldom, and to count it costs a database something.
        if (asked || round.is_multiple_of(COUNTED_EVERY))
            && stop.run_until_cancelled(board.count(&office, &health)).await.is_none()
        {
            return;
        }
        board.sample(&health);
        let pause = tokio::time::timeout(PAUSE, board.stale.notified());
        asked = match stop.run_until_cancelled(pause).await {
            Some(woken) => woken.is_ok(),
            None => return,
        };
    }
}

/// `GET /charts.json`: the last hour as columns.
pub(super) async fn charts(State(shared): State<Arc<Shared>>, _: Person) -> Response {
    let columns = shared.board.history().columns();
    ([(header::CACHE_CONTROL, "no-store")], Json(columns)).into_response()
}

/// `GET /events`: one event per sample.
pub(super) async fn events(State(shared): State<Arc<Shared>>, _: Person) -> Response {
    let ticks = WatchStream::new(shared.board.ticks.subscribe());
    let events = ticks.filter_map(|tick| async {
        let event = Event::default().event("tick").json_data(tick?).ok()?;
        Some(Ok::<_, Infallible>(event))
    });
    let stop = shared.board.stop.clone();
    let end = async move {
        stop.run_until_cancelled(tokio::time::sleep(STREAM)).await;
    };
    Sse::new(events.take_until(Box::pin(end))).keep_alive(KeepAlive::default()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    #[tokio::test]
    async fn e5_outboxes_are_asked_once_in_a_tick_and_anew_when_somebody_has_done_something() {
        let text = "[connections]\nshop = \"sqlite:/nowhere/at/all/shop.db\"\n[sources.orders]\non = \"shop\"\n\
            [sinks.screen]\nstdout = true\n[pipes.relay]\nfrom = \"orders\"\nto = \"screen\"\n";
        let plan = Plan::parse(std::path::Path::new("/srv/outboxd.toml"), text, &|_| None);
        let office = Office::serving(Arc::new(plan.expect("it is valid").plan), Arc::default());
        let board = Board::new(CancellationToken::new());
        let first = board.stands(&office).await;
        assert!(Arc::ptr_eq(&first, &board.stands(&office).await), "all pages of a tick share it");
        board.changed().await;
        let fresh = board.stands(&office).await;
        assert!(!Arc::ptr_eq(&first, &fresh), "whoever pressed a button sees what it did");
    }
}

//! The whole way, from a transaction in PostgreSQL through the pipe to a queue of RabbitMQ, while something fails.
//!
//! Writers keep a ledger of what they committed. What the outbox calls done is read back from the queue and
//! compared with it: nothing lost, nothing that was rolled back, every key in order.

mod broker;
mod header;
mod network;
mod topology;
mod unroutable;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lapin::message::Delivery;
use outbox::admin::{Admin, CursorStatus, Entry, Filter, Stand};
use outbox::policy::Backoff;
use outbox::postgres::Outbox;
use outbox::rabbitmq::Exchange;
use outbox::{Message, Pipe, Policy, Stats};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sqlx::Row;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::postgres::Log;
use crate::rabbitmq::{Scene, id};

const CURSOR: &str = "relay";
const KEYS: usize = 200;
const WRITERS: u64 = 3;
const BATCH: usize = 100;
const DEPTH: usize = 4;

/// What may be in flight when an outage comes, and come again after it.
const WINDOW: usize = BATCH * DEPTH;

/// Writers slow down when so many are not delivered.
const SLOWER: u64 = 2_000;

/// Longer than anything here should take, a start of the broker included.
const PATIENCE: Duration = Duration::from_secs(120);

/// The events of a change: the next version of a key, and whatever else is written with it.
type Events = dyn Fn(&str, usize) -> Vec<Message> + Send + Sync;

/// What was committed, by id.
type Ledger = Arc<Mutex<HashMap<String, Message>>>;

fn changed(key: &str, version: usize) -> Message {
    Message::new("order.changed", format!("{key}:{version}")).key(key)
}

/// Probes and retries often: the tests wait for them.
fn policy() -> Policy {
    let (short, long) = (Duration::from_millis(100), Duration::from_millis(500));
    Policy {
        retry: Backoff { first: short, most: long },
        probe: Backoff { first: short, most: long },
        ..Policy::default()
    }
}

/// Writers that write and a pipe that carries, in the background.
struct Flow {
    log: Log,
    ledger: Ledger,
    stats: Arc<Stats>,
    quiet: CancellationToken,
    writers: Vec<JoinHandle<()>>,
    stop: CancellationToken,
    pipe: JoinHandle<outbox::Result<()>>,
}

impl Flow {
    /// Every event changes one of the keys.
    async fn start(log: Log, sink: Exchange) -> Self {
        Self::of(log, sink, policy(), |key, version| vec![changed(key, version)]).await
    }

    async fn of(
        log: Log,
        sink: Exchange,
        policy: Policy,
        events: impl Fn(&str, usize) -> Vec<Message> + Send + Sync + 'static,
    ) -> Self {
        let sql = "create table aggregates (key text primary key, version int not null);
                   insert into aggregates select 'k' || n, 0 from generate_series(0, 199) n";
        sqlx::raw_sql(sql).execute(log.outbox.pool()).await.unwrap();
        let (ledger, quiet, stop) = (Ledger::default(), CancellationToken::new(), CancellationToken::new());
        let events: Arc<Events> = Arc::new(events);
        let pipe = Pipe::new(log.outbox.cursor(CURSOR), sink).policy(policy).batch(BATCH).depth(DEPTH);
        let stats = pipe.stats();
        let writers = (0..WRITERS).map(|seed| {
            let (outbox, ledger, events) = (log.outbox.clone(), ledger.clone(), events.clone());
            tokio::spawn(write(outbox, seed, ledger, events, stats.clone(), quiet.clone()))
        });
        let writers = writers.collect();
        let pipe = tokio::spawn(pipe.run(stop.clone()));
        Self { log, ledger, stats, quiet, writers, stop, pipe }
    }

    /// Waits until `count` more are delivered than now.
    async fn flows(&self, count: u64) {
        let goal = self.stats.delivered() + count;
        until("messages to flow", async || self.stats.delivered() >= goal).await;
    }

    /// Waits until `count` more are committed than now.
    async fn writes(&self, count: usize) {
        let goal = self.ledger.lock().unwrap().len() + count;
        until("writers to write", async || self.ledger.lock().unwrap().len() >= goal).await;
    }

    /// Waits until the pipe has stopped for this cause, and all that was out is settled.
    async fn is_out(&self, code: &str) {
        let stats = &self.stats;
        until(code, async || {
            let settled =
                stats.delivered() + stats.retried() + stats.dead() + stats.behind() + stats.released();
            stats.open_cause().is_some_and(|cause| cause.code == code) && settled == stats.claimed()
        })
        .await;
    }

    async fn status(&self) -> CursorStatus {
        let all = self.log.outbox.status().await.unwrap();
        all.into_iter().find(|status| status.cursor == CURSOR).unwrap()
    }

    /// What a person sees of messages in this state.
    async fn list(&self, stand: Stand) -> Vec<Entry> {
        let cursor = Some(CURSOR.to_owned());
        let filter = Filter { cursor, stand: Some(stand), limit: 100_000, ..Filter::default() };
        self.log.outbox.list(&filter).await.unwrap()
    }

    /// An outage is nobody's fault among the messages.
    async fn assert_nothing_is_charged(&self) {
        let sql = "select coalesce(max(attempts), 0) from outbox.parked";
        let row = sqlx::query(sql).fetch_one(self.log.outbox.pool()).await.unwrap();
        assert_eq!(row.get::<i32, _>(0), 0, "attempts of what is set aside");
        assert_eq!((self.stats.retried(), self.stats.dead()), (0, 0), "retried, dead");
    }

    /// Ends the writing.
    async fn fall_quiet(&mut self) {
        self.quiet.cancel();
        for writer in std::mem::take(&mut self.writers) {
            writer.await.unwrap();
        }
    }

    /// Waits until all that is left is dead, or behind what is dead.
    async fn is_through(&self) {
        until("everything to be decided", async || {
            let status = self.status().await;
            status.pending + status.waiting == 0 && (status.behind == 0 || status.dead > 0)
        })
        .await;
    }

    /// Ends the writing, lets everything through, stops the pipe, and compares the queue with the ledger.
    async fn finish(mut self, scene: &Scene) -> Sum {
        self.fall_quiet().await;
        self.is_through().await;
        self.stop.cancel();
        self.pipe.await.unwrap().unwrap();
        let ledger = self.ledger.lock().unwrap().clone();
        Sum::of(&ledger, &scene.drain("orders").await, &HashSet::new())
    }
}

/// Changes keys under their row locks, a few in a transaction; some of it is rolled back.
async fn write(
    outbox: Outbox,
    seed: u64,
    ledger: Ledger,
    events: Arc<Events>,
    stats: Arc<Stats>,
    quiet: CancellationToken,
) {
    let mut dice = StdRng::seed_from_u64(seed);
    while !quiet.is_cancelled() {
        let mut tx = outbox.pool().begin().await.unwrap();
        let mut keys: Vec<usize> =
            (0..dice.random_range(1..30)).map(|_| dice.random_range(0..KEYS)).collect();
        keys.sort_unstable();
        let mut written = Vec::new();
        for key in keys {
            let key = format!("k{key}");
            let sql = "update aggregates set version = version + 1 where key = $1 returning version - 1";
            let row = sqlx::query(sql).bind(&key).fetch_one(&mut *tx).await.unwrap();
            written.extend(events(&key, usize::try_from(row.get::<i32, _>(0)).unwrap()));
        }
        outbox.enqueue_all(&mut tx, &written).await.unwrap();
        if dice.random_bool(0.1) {
            tx.rollback().await.unwrap();
        } else {
            tx.commit().await.unwrap();
            ledger.lock().unwrap().extend(written.into_iter().map(|event| (event.id.to_string(), event)));
        }
        // An outage of many seconds must not leave more than can be read back in a few.
        let backlog = (ledger.lock().unwrap().len() as u64).saturating_sub(stats.delivered());
        let pause = Duration::from_millis(if backlog < SLOWER { 5 } else { 150 });
        tokio::time::sleep(pause).await;
    }
}

/// What became of what was committed.
#[derive(Debug)]
struct Sum {
    committed: usize,
    /// Committed, and not in the queue.
    missing: HashSet<String>,
    /// In the queue, and never committed.
    phantom: usize,
    /// Keys of which something came before something earlier.
    overtaken: Vec<String>,
    /// Arrivals beyond the first of a message.
    twice: usize,
}

impl Sum {
    /// `skipped` are messages that their key goes on without.
    fn of(ledger: &HashMap<String, Message>, arrivals: &[Delivery], skipped: &HashSet<String>) -> Self {
        let mut arrived = HashSet::new();
        let mut firsts: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let (mut phantom, mut twice) = (0, 0);
        for id in arrivals.iter().map(id) {
            match ledger.get(&id) {
                _ if arrived.contains(&id) => twice += 1,
                Some(message) => {
                    if let Some(key) = &message.key {
                        firsts.entry(key.clone()).or_default().push(version(message));
                    }
                }
                None => phantom += 1,
            }
            arrived.insert(id);
        }
        let mut versions: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for message in ledger.values().filter(|message| !skipped.contains(message.id.as_str())) {
            if let Some(key) = &message.key {
                versions.entry(key).or_default().push(version(message));
            }
        }
        versions.values_mut().for_each(|versions| versions.sort_unstable());
        // Without a gap: one that is set aside holds back all that follows it.
        let in_order = |(key, firsts): &(String, Vec<usize>)| {
            versions.get(key.as_str()).is_some_and(|versions| versions.starts_with(firsts))
        };
        let overtaken = firsts.into_iter().filter(|line| !in_order(line)).map(|(key, _)| key).collect();
        let missing = ledger.keys().filter(|id| !arrived.contains(*id)).cloned().collect();
        Self { committed: ledger.len(), missing, phantom, overtaken, twice }
    }

    /// Everything is there and in order, and no more came twice than so many outages explain.
    fn assert_whole(&self, outages: usize) {
        assert!(self.missing.is_empty(), "{} of {} are lost", self.missing.len(), self.committed);
        self.assert_true(outages);
    }

    /// What is there was committed and is in order, and no more came twice than so many outages explain.
    fn assert_true(&self, outages: usize) {
        assert_eq!((self.phantom, self.overtaken.as_slice()), (0, &[] as &[String]), "phantom, overtaken");
        let (most, committed) = (outages * WINDOW, self.committed);
        eprintln!("{committed} committed, {} not there, {} twice", self.missing.len(), self.twice);
        assert!(
            self.twice <= most,
            "{} came twice, {most} could be in flight at {outages} outages",
            self.twice
        );
    }
}

/// The version that a message bears: its payload is `key:version`, with anything after another colon.
fn version(message: &Message) -> usize {
    let text = std::str::from_utf8(&message.payload).unwrap();
    text.split(':').nth(1).unwrap().parse().unwrap()
}

/// Looks until it is so.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let looking = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("waited too long for {what}"));
}

//! One test: a log, a place where messages arrive, and relays that live and die between them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use lapin::options::{BasicConsumeOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use outbox::rabbitmq::{Exchange, ExchangeConfig, QueueConfig};
use outbox::{cloudevents, postgres, sqlite};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use super::child::{BATCH, DEPTH, From, Into, Orders};
use super::ledger::Ledger;
use super::log::{Log, Stand};
use super::relay::{PATIENCE, Relay};
use super::{EXCHANGE, QUEUE};

/// So short that a restart under another name does not wait long, and so long that a busy machine keeps it.
pub(super) const LEASE: Duration = Duration::from_millis(1000);

/// After so many events of one life the writer slows down, and only sees to it that there is always something.
const BUSY: usize = 200;

const TICK: Duration = Duration::from_millis(20);

pub(super) struct Scene {
    name: &'static str,
    seed: u64,
    began: Instant,
    pub(super) random: StdRng,
    pub(super) log: Log,
    pub(super) ledger: Ledger,
    pub(super) orders: Orders,
    kills: usize,
    relays: usize,
    fragments: usize,
    folder: TempDir,
}

impl Scene {
    /// From a log in SQLite.
    pub(super) async fn sqlite(name: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("log.db").display());
        let outbox = sqlite::Outbox::connect(&url).await.unwrap();
        outbox.migrate().await.unwrap();
        Self::new(name, folder, url, Log::Sqlite(outbox))
    }

    /// From a log in PostgreSQL; `None` when there is no server to be had.
    pub(super) async fn postgres(name: &'static str) -> Option<Self> {
        let database = testbed::postgres().await?.database().await.unwrap();
        let outbox = postgres::Outbox::connect(database.url()).await.unwrap();
        outbox.migrate().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        Some(Self::new(name, folder, database.url().to_owned(), Log::Postgres(outbox)))
    }

    /// Into a file of lines, until told otherwise.
    fn new(name: &'static str, folder: TempDir, url: String, log: Log) -> Self {
        let seed = super::seed();
        // On the way of every failure, and nowhere else, since output of a test that passes is not shown.
        eprintln!("{name}: OUTBOX_SEED={seed}");
        let into = Into::Lines(folder.path().join("events.jsonl").display().to_string());
        let lease_ms = u64::try_from(LEASE.as_millis()).unwrap();
        let orders = Orders {
            from: From::Log,
            log: url,
            into,
            owner: "relay".to_owned(),
            lanes: 1,
            lease_ms,
            slowness_ms: 0,
        };
        let (random, ledger) = (StdRng::seed_from_u64(seed), Ledger::new(seed));
        let (began, kills, relays, fragments) = (Instant::now(), 0, 0, 0);
        Self { name, seed, began, random, log, ledger, orders, kills, relays, fragments, folder }
    }

    /// Into a handler under the inbox of the log's database.
    pub(super) async fn into_effects(mut self) -> Self {
        self.log.prepare_effects().await;
        self.orders.into = Into::Effects;
        self
    }

    /// Into an exchange with one durable queue; `None` when there is no broker to be had.
    pub(super) async fn into_broker(mut self) -> Option<Self> {
        let vhost = testbed::rabbitmq().await?.vhost().await.unwrap();
        let mut config = ExchangeConfig::new(EXCHANGE);
        config.queues.push(QueueConfig::new(QUEUE, ["#"]));
        Exchange::new(vhost.url(), config).unwrap().check().await.unwrap();
        self.orders.into = Into::Broker(vhost.url().to_owned());
        Some(self)
    }

    /// Starts a relay. One that comes back under its name goes on at once, a new one waits for the lease.
    pub(super) fn start(&mut self, failpoints: &str, is_new: bool) -> Relay {
        let mut orders = self.orders.clone();
        if is_new {
            self.relays += 1;
            orders.owner = format!("relay-{}", self.relays);
        }
        Relay::start(&orders, failpoints, self.folder.path())
    }

    /// Kills so many relays, spread over these steps, each at one of its first passes.
    pub(super) async fn kill_at(&mut self, steps: &[&'static str], kills: usize) {
        let mut steps = steps.to_vec();
        for turn in 0..kills {
            if turn % steps.len() == 0 {
                steps.shuffle(&mut self.random);
            }
            let is_new = self.random.random_bool(0.2);
            self.live_until(steps[turn % steps.len()], is_new).await;
        }
    }

    /// One life: events are written while a relay carries them, until it dies at this step.
    pub(super) async fn live_until(&mut self, step: &str, is_new: bool) {
        let passes = match step {
            // Passed once in a life, or three times a second.
            "take_before_commit" | "take_after_commit" | "closing" | "closed" | "renewing" | "renewed" => 0,
            // Only when a message fails or comes again.
            "settle_set_aside" => self.random.random_range(0..4),
            _ => self.random.random_range(0..8),
        };
        let failpoints = match passes {
            0 => format!("{step}=return"),
            passes => format!("{step}={passes}*off->return"),
        };
        let mut relay = self.start(&failpoints, is_new);
        let (before, began) = (self.ledger.len(), Instant::now());
        while !relay.is_killed() {
            self.log.write(&mut self.ledger).await;
            if self.ledger.len() > before + BUSY {
                if step.starts_with("clos") {
                    relay.tell_to_stop();
                }
                tokio::time::sleep(TICK).await;
            }
            assert!(began.elapsed() < PATIENCE, "'{failpoints}' was never passed\n{}", relay.output());
        }
        self.kills += 1;
        self.tear();
    }

    /// Cuts a line short, as a crash within a write does; mostly, since the crash before may have left the line
    /// that comes next in the file already, and then it is not missed.
    fn tear(&mut self) {
        let Into::Lines(path) = &self.orders.into else { return };
        let Ok(text) = std::fs::read(path) else { return };
        // One that is torn already would only get longer.
        if text.last() != Some(&b'\n') || self.random.random_bool(0.3) {
            return;
        }
        let line = text.split(|byte| *byte == b'\n').next().unwrap();
        let fragment = &line[..self.random.random_range(1..line.len())];
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        std::io::Write::write_all(&mut file, fragment).unwrap();
        self.fragments += 1;
    }

    /// Writes until there are so many more events.
    pub(super) async fn write(&mut self, events: usize) {
        let goal = self.ledger.len() + events;
        while self.ledger.len() < goal {
            self.log.write(&mut self.ledger).await;
        }
    }

    /// Waits until the cursor is as wanted, while anything moves at all.
    pub(super) async fn until(&self, what: &str, is_so: impl Fn(&Stand) -> bool) -> Stand {
        let (mut since, mut last) = (Instant::now(), 0);
        loop {
            let stand = self.log.stand().await;
            if is_so(&stand) {
                return stand;
            }
            if stand.delivered > last {
                (since, last) = (Instant::now(), stand.delivered);
            }
            if since.elapsed() > PATIENCE {
                let (seed, events) = (self.seed, self.ledger.len());
                let report = self.ledger.check(&self.arrivals().await);
                panic!("OUTBOX_SEED={seed}: never {what}: {stand:?} of {events}, {report:?}");
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// Halts a relay, but not within a transaction of SQLite: as with any other writer of the file, nobody could
    /// write until it goes on, and no lease changes that.
    pub(super) async fn halt(&self, relay: &Relay) {
        let lock = match &self.log {
            Log::Sqlite(outbox) => Some(outbox.pool().begin_with("BEGIN IMMEDIATE").await.unwrap()),
            Log::Postgres(_) => None,
        };
        relay.halt();
        drop(lock);
    }

    /// Waits until somebody holds a lock on the cursor and does nothing with it.
    pub(super) async fn until_locked(&self) {
        let Log::Postgres(outbox) = &self.log else { return };
        let sql = "select exists (
                       select from pg_locks l join pg_stat_activity a using (pid)
                       where a.datname = current_database() and a.state = 'idle in transaction'
                         and a.state_change < clock_timestamp() - interval '100 milliseconds'
                         and l.mode = 'RowExclusiveLock' and l.relation = 'outbox.cursors'::regclass)";
        let began = Instant::now();
        while !sqlx::query_scalar::<_, bool>(sql).fetch_one(outbox.pool()).await.unwrap() {
            assert!(began.elapsed() < PATIENCE, "nobody holds a lock");
            tokio::time::sleep(TICK).await;
        }
    }

    /// Lets a last relay carry what is left, then checks everything.
    pub(super) async fn finish(mut self) {
        let last = self.start("", false);
        self.finish_with(vec![last]).await;
    }

    /// Lets these relays carry what is left, then checks everything; tells how many came twice.
    pub(super) async fn finish_with(self, relays: Vec<Relay>) -> usize {
        let events = self.ledger.len();
        let stand = self.until("all delivered", |stand| stand.delivered >= events as u64).await;
        for relay in relays {
            relay.stop().await;
        }
        let settled = self.log.stand().await.delivered;
        let report = self.ledger.check(&self.arrivals().await);
        let (name, seed, kills, taken) = (self.name, self.seed, self.kills, stand.taken);
        eprintln!(
            "{name}: {kills} kills, taken {taken} times, {events} events, {} duplicates, {:.1} s",
            report.duplicates,
            self.began.elapsed().as_secs_f32()
        );
        let told = format!("{name}: OUTBOX_SEED={seed}: {report:?}");
        assert!(report.lost.is_empty(), "lost: {told}");
        assert!(report.phantom.is_empty(), "phantom: {told}");
        assert!(report.overtaken.is_empty(), "overtaken: {told}");
        assert_eq!(settled, events as u64, "settled once each: {told}");
        // Nothing repeats but what was in flight when a cursor changed hands.
        let most = match self.orders.into {
            Into::Effects => 0,
            _ => usize::try_from(taken).unwrap().saturating_sub(1) * BATCH * DEPTH,
        };
        assert!(report.duplicates <= most, "more than {most} duplicates: {told}");
        report.duplicates
    }

    /// The ids that arrived, in the order in which they did.
    async fn arrivals(&self) -> Vec<String> {
        match &self.orders.into {
            Into::Effects => self.log.effects().await,
            Into::Lines(path) => self.lines(path.into()),
            Into::Broker(url) => drain(url).await,
        }
    }

    fn lines(&self, path: PathBuf) -> Vec<String> {
        let text = std::fs::read(path).unwrap();
        let lines: Vec<_> = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        let read = lines.iter().filter_map(|line| cloudevents::parse(line).ok());
        let ids: Vec<_> = read.map(|(message, _)| message.id.to_string()).collect();
        let torn = lines.len() - ids.len();
        let most = self.fragments + self.kills;
        assert!((self.fragments..=most).contains(&torn), "{torn} torn lines of {} cuts", self.fragments);
        ids
    }
}

/// Takes everything out of the queue.
async fn drain(url: &str) -> Vec<String> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
    let queue = channel.queue_declare(QUEUE.into(), passive, FieldTable::default()).await.unwrap();
    let count = usize::try_from(queue.message_count()).unwrap();
    let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    let consumer = channel.basic_consume(QUEUE.into(), "check".into(), options, FieldTable::default()).await;
    let deliveries: Vec<_> = consumer.unwrap().take(count).collect().await;
    let id =
        |delivery: lapin::message::Delivery| delivery.properties.message_id().clone().unwrap().to_string();
    deliveries.into_iter().map(|delivery| id(delivery.unwrap())).collect()
}

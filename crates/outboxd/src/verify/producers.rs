//! Who writes: producers with keys of their own, one transaction after the other, some of which they take back.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outbox::Message;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ledger::{End, Ledger};
use super::locked;
use super::log::Log;
use super::tag::{Run, Tag, key};

/// How many write at a time. Keys are not shared: the writers of a key take turns, as the log asks for.
const PRODUCERS: u8 = 4;

/// The producer of transactions that stay open.
const LONG: u8 = u8::MAX;

const KEYS: u16 = 40;

/// Messages of one transaction at most.
const MOST: usize = 12;

/// One in so many transactions is taken back.
const ROLLED_BACK: f64 = 0.1;

/// One in so many messages has no key.
const KEYLESS: f64 = 0.1;

/// After a failure: whatever it was, it takes a moment.
const PAUSE: Duration = Duration::from_millis(100);

/// The producers of a run.
pub(super) struct Producers {
    pub(super) log: Log,
    pub(super) run: Run,
    pub(super) ledger: Arc<Mutex<Ledger>>,
}

impl Producers {
    /// Writes so many messages per second until the stop. While more than `most` wait to be carried nothing is written,
    /// so that relays are soon through at the end; the consumer may take longer.
    pub(super) fn start(
        self: &Arc<Self>,
        rate: u32,
        most: u64,
        seed: u64,
        stop: &CancellationToken,
    ) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for producer in 0..PRODUCERS {
            let (this, stop) = (Arc::clone(self), stop.clone());
            let random = StdRng::seed_from_u64(seed ^ (u64::from(producer) + 1) << 32);
            tasks.spawn(async move { this.produce(producer, f64::from(rate), most, random, stop).await });
        }
        tasks
    }

    async fn produce(&self, producer: u8, rate: f64, most: u64, mut random: StdRng, stop: CancellationToken) {
        let mut due = Instant::now();
        while !stop.is_cancelled() {
            if locked(&self.ledger).missing() > most {
                tokio::time::sleep(PAUSE).await;
                due = Instant::now();
                continue;
            }
            let (tags, commits) = self.draft(producer, &mut random);
            let end = self.write(&tags, commits, Duration::ZERO).await;
            if commits && end != End::Committed {
                tokio::time::sleep(PAUSE).await;
            }
            // Never more than a second behind: what was missed is not made up for in a burst.
            due = due.max(Instant::now() - Duration::from_secs(1))
                + Duration::from_secs_f64(tags.len() as f64 * f64::from(PRODUCERS) / rate);
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep_until(due) => {}
            }
        }
    }

    fn draft(&self, producer: u8, random: &mut StdRng) -> (Vec<Tag>, bool) {
        let mut ledger = locked(&self.ledger);
        let count = random.random_range(1..=MOST);
        let tags = (0..count).map(|_| {
            let key = if random.random_bool(KEYLESS) { 0 } else { random.random_range(1..=KEYS) };
            ledger.begin(producer, key)
        });
        let tags = tags.collect();
        (tags, !random.random_bool(ROLLED_BACK))
    }

    /// Writes, and notes how it ended after it has.
    async fn write(&self, tags: &[Tag], commits: bool, open: Duration) -> End {
        let messages: Vec<Message> = tags.iter().map(|tag| self.message(*tag)).collect();
        let end = self.log.write(&messages, commits, open).await;
        locked(&self.ledger).end(tags, end);
        end
    }

    fn message(&self, tag: Tag) -> Message {
        let message = Message::new("verify.written", self.run.payload(tag))
            .id(self.run.id(tag))
            .content_type("application/json");
        match key(tag) {
            Some(key) => message.key(key),
            None => message,
        }
    }

    /// One transaction that stays open for so long, and how it ended.
    pub(super) async fn long(&self, open: Duration) -> End {
        let tags: Vec<Tag> = {
            let mut ledger = locked(&self.ledger);
            (0..3).map(|key| ledger.begin(LONG, key)).collect()
        };
        self.write(&tags, true, open).await
    }
}

//! Thousands of short lives of a pipe between a source and a sink that fail by the dice, on a paused clock.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use outbox::memory::{Cursor, Outbox};
use outbox::policy::Backoff;
use outbox::{
    Cause, Claim, Error, ErrorKind, Message, Outcome, Pipe, Policy, Result, Sink, Source, Verdict, code,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Mutex;

use crate::pipe::{message, payloads, rejected, start};

/// A source that fails, loses answers and loses its lease, by the dice.
struct Faulty {
    cursor: Cursor,
    outbox: Outbox,
    dice: Arc<Mutex<StdRng>>,
    calm: Arc<AtomicBool>,
}

impl Faulty {
    async fn happens(&self, chance: f64) -> bool {
        !self.calm.load(Ordering::Relaxed) && self.dice.lock().await.random_bool(chance)
    }
}

#[async_trait]
impl Source for Faulty {
    async fn claim(&self, limit: usize) -> Result<Claim> {
        if self.happens(0.05).await {
            return Err(Error::new(ErrorKind::Unreachable, "told to fail"));
        }
        self.cursor.claim(limit).await
    }
    async fn settle(&self, claim: &Claim, verdicts: &[Verdict]) -> Result<()> {
        if self.happens(0.05).await {
            return Err(Error::new(ErrorKind::Unreachable, "not even asked"));
        }
        if self.happens(0.02).await {
            self.outbox.expire("c");
        }
        let result = self.cursor.settle(claim, verdicts).await;
        if self.happens(0.05).await {
            return Err(Error::new(ErrorKind::Timeout, "done, but the answer is lost"));
        }
        result
    }
    async fn wait(&self, idle: Duration) {
        self.cursor.wait(idle).await;
    }
    async fn close(&self) -> Result<()> {
        self.cursor.close().await
    }
}

/// A sink that rejects and is away, by the dice; it keeps what it took.
struct Moody {
    taken: Mutex<Vec<Message>>,
    dice: Arc<Mutex<StdRng>>,
    calm: Arc<AtomicBool>,
}

#[async_trait]
impl Sink for Moody {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        let calm = self.calm.load(Ordering::Relaxed);
        let pause = self.dice.lock().await.random_range(0..20);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let away = !calm && self.dice.lock().await.random_bool(0.05);
        let mut outcomes = Vec::new();
        for message in messages {
            let mut dice = self.dice.lock().await;
            outcomes.push(if away {
                Outcome::Unavailable(Cause::new(code::UNREACHABLE, "away"))
            } else if !calm && dice.random_bool(0.1) {
                rejected()
            } else {
                self.taken.lock().await.push(message.clone());
                Outcome::Delivered
            });
        }
        outcomes
    }
}

/// What the ledger says: nothing lost, and each key's first arrivals in order; twice only after a lost lease.
async fn one_life(seed: u64) {
    let dice = Arc::new(Mutex::new(StdRng::seed_from_u64(seed)));
    let calm = Arc::new(AtomicBool::new(false));
    let outbox = Outbox::new();
    let keys: Vec<String> = (0..6).map(|n| format!("k{n}")).collect();
    let source =
        Faulty { cursor: outbox.cursor("c"), outbox: outbox.clone(), dice: dice.clone(), calm: calm.clone() };
    let sink = Arc::new(Moody { taken: Mutex::default(), dice: dice.clone(), calm: calm.clone() });
    let retry = Backoff { first: Duration::from_millis(50), most: Duration::from_secs(1) };
    let policy = Policy { attempts: 1000, retry, probe: retry, ..Policy::default() };
    let mut jitter = StdRng::seed_from_u64(!seed);
    let pipe = Pipe::new(source, sink.clone()).policy(policy).batch(5).depth(3).concurrency(3);
    let pipe = start(pipe.jitter(move || jitter.random()));
    for number in 0..40 {
        outbox.enqueue_all(keys.iter().map(|key| message(key, number)).collect()).unwrap();
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    calm.store(true, Ordering::Relaxed);
    let mut distinct = HashMap::<_, usize>::new();
    for _ in 0..10_000 {
        distinct.clear();
        sink.taken
            .lock()
            .await
            .iter()
            .for_each(|message| *distinct.entry(message.id.clone()).or_default() += 1);
        if distinct.len() == 240 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(distinct.len(), 240, "seed {seed}: lost");
    let mut next: HashMap<String, usize> = HashMap::new();
    for message in sink.taken.lock().await.iter() {
        let key = message.key.clone().unwrap();
        let number: usize =
            payloads(std::slice::from_ref(message))[0].split(':').nth(1).unwrap().parse().unwrap();
        let expected = next.entry(key).or_default();
        assert!(number <= *expected, "seed {seed}: {number} came before {expected}");
        *expected = (*expected).max(number + 1);
    }
    pipe.stop().await;
}

#[tokio::test(start_paused = true)]
async fn c4_nothing_is_lost_or_out_of_order_in_any_of_many_seeded_lives() {
    let lives: u64 = std::env::var("OUTBOX_LIVES").ok().and_then(|lives| lives.parse().ok()).unwrap_or(300);
    for seed in 0..lives {
        one_life(seed).await;
    }
}

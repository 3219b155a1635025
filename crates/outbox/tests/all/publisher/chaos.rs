//! Many short lives of two publishers over one log, with everything failing by the dice, on a paused clock.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use outbox::memory::{LogStore, Outbox};
use outbox::policy::Backoff;
use outbox::{
    Cause, Error, ErrorKind, Limits, Message, Outcome, Pipe, Policy, Publisher, Result, Sink, Store, code,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::pipe::{message, start};

const SEEDS: u64 = 150;
const KEYS: usize = 6;
const EACH: usize = 25;

#[derive(Clone)]
struct World {
    dice: Arc<Mutex<StdRng>>,
    calm: Arc<AtomicBool>,
    /// Whether the broker is down; it changes by itself.
    down: Arc<AtomicBool>,
    arrived: Arc<Mutex<Vec<Message>>>,
}

impl World {
    fn happens(&self, chance: f64) -> bool {
        !self.calm.load(Ordering::Relaxed) && self.dice.lock().unwrap().random_bool(chance)
    }

    async fn pause(&self, most: u64) {
        let pause = self.dice.lock().unwrap().random_range(0..most);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

/// A broker that is slow, answers too late, is gone for a while, has no route, or loses an answer.
#[async_trait]
impl Sink for World {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        self.pause(20).await;
        if self.happens(0.05) {
            self.down.fetch_not(Ordering::Relaxed);
        }
        if self.down.load(Ordering::Relaxed) && !self.calm.load(Ordering::Relaxed) {
            if self.happens(0.5) {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            return vec![Outcome::Unavailable(Cause::new(code::UNREACHABLE, "down")); messages.len()];
        }
        let judge = |message: &Message| {
            if self.happens(0.05) {
                return Outcome::rejected(Cause::new(code::NO_ROUTE, "no route"));
            }
            self.arrived.lock().unwrap().push(message.clone());
            match self.happens(0.05) {
                true => Outcome::Unavailable(Cause::new(code::TIMEOUT, "the answer was lost")),
                false => Outcome::Delivered,
            }
        };
        let outcomes = messages.iter().map(judge).collect();
        if self.happens(0.05) {
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        outcomes
    }
}

/// A store that is slow, fails, or loses an answer.
struct Faulty {
    world: World,
    store: LogStore,
}

impl Faulty {
    fn gone() -> Error {
        Error::new(ErrorKind::Unreachable, "told to fail")
    }
}

#[async_trait]
impl Store for Faulty {
    fn limits(&self) -> Limits {
        self.store.limits()
    }
    fn admit(&self, message: Message) -> Result<Message> {
        self.store.admit(message)
    }
    async fn keep(&self, messages: &[Message]) -> Result<()> {
        self.world.pause(10).await;
        if self.world.happens(0.1) {
            return Err(Self::gone());
        }
        self.store.keep(messages).await?;
        if self.world.happens(0.1) { Err(Self::gone()) } else { Ok(()) }
    }
    async fn has_kept(&self, keys: &[&str]) -> Result<HashSet<String>> {
        self.world.pause(10).await;
        if self.world.happens(0.1) { Err(Self::gone()) } else { self.store.has_kept(keys).await }
    }
}

/// Publishes the messages of its keys, one after the other; what is an error is published again.
async fn produce(publisher: Arc<Publisher>, key: usize) {
    for number in 0..EACH {
        let message = message(&format!("k{key}"), number);
        while publisher.publish(message.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn live(seed: u64) {
    let world = World {
        dice: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))),
        calm: Arc::default(),
        down: Arc::default(),
        arrived: Arc::default(),
    };
    let outbox = Outbox::new();
    let short = Backoff { first: Duration::from_millis(50), most: Duration::from_millis(200) };
    let policy = Policy { attempts: 10_000, retry: short, probe: short, ..Policy::default() };
    let pipe = Pipe::new(outbox.cursor("later"), world.clone()).policy(policy).batch(5);
    let pipe = start(pipe.idle(Duration::from_millis(20)));
    let publisher = || {
        let store = Faulty { world: world.clone(), store: outbox.store("later") };
        let publisher = Publisher::new(Arc::new(world.clone()), Arc::new(store));
        Arc::new(publisher.timeout(Duration::from_millis(300)).probe(short))
    };
    let publishers = [publisher(), publisher()];
    let producers = (0..KEYS).map(|key| produce(publishers[key % 2].clone(), key));
    futures_util::future::join_all(producers).await;
    world.calm.store(true, Ordering::Relaxed);
    let keys: Vec<String> = (0..KEYS).map(|key| format!("k{key}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    while !outbox.store("later").has_kept(&keys).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    pipe.stop().await;
    let (mut seen, mut next) = (HashSet::new(), HashMap::<String, usize>::new());
    for message in world.arrived.lock().unwrap().iter().filter(|message| seen.insert(message.id.clone())) {
        let key = message.key.clone().unwrap();
        let expected = next.entry(key.clone()).or_default();
        let came = String::from_utf8_lossy(&message.payload).into_owned();
        assert_eq!(came, format!("{key}:{expected}"), "seed {seed}: something was overtaken");
        *expected += 1;
    }
    assert_eq!(next.into_values().sum::<usize>(), KEYS * EACH, "seed {seed}: something is lost");
}

#[tokio::test(start_paused = true)]
async fn e4_whatever_fails_nothing_is_lost_and_no_key_is_overtaken() {
    for seed in 0..SEEDS {
        live(seed).await;
    }
}

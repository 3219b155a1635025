//! Relays that share a mapped table while their sessions are cut, their sink fails and they come and go: nothing is
//! lost, and the messages of a key arrive in order.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use outbox::policy::{Backoff, Order};
use outbox::table::Reading;
use outbox::{Cause, Message, Outcome, Pipe, Policy, Sink, Source, code};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::busy;

/// A table in some database, and what is done to it.
#[async_trait]
pub(crate) trait Ground: Send + Sync + 'static {
    fn sources(&self, reading: &Reading) -> Vec<Arc<dyn Source>>;

    /// Writes one message, as an application would, in a transaction of its own.
    async fn write_one(&self, message: &Message);

    async fn pending(&self) -> i64;

    /// Ends one session of a relay, be it that of a claim or that of the locks.
    async fn cut_a_session(&self);
}

/// Keeps what it took, and fails by the dice.
struct Moody {
    taken: Mutex<Vec<(String, u32)>>,
    dice: Mutex<StdRng>,
    calm: AtomicBool,
}

impl Moody {
    fn new(seed: u64) -> Arc<Self> {
        let dice = Mutex::new(StdRng::seed_from_u64(seed));
        Arc::new(Self { taken: Mutex::default(), dice, calm: AtomicBool::new(false) })
    }

    fn roll(&self, chance: f64) -> bool {
        !self.calm.load(Ordering::Relaxed) && self.dice.lock().unwrap().random_bool(chance)
    }

    fn count(&self) -> usize {
        self.taken.lock().unwrap().len()
    }
}

#[async_trait]
impl Sink for Moody {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        let pause = self.dice.lock().unwrap().random_range(0..8);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let away = self.roll(0.01);
        let one = |message: &Message| {
            if away {
                return Outcome::Unavailable(Cause::new(code::UNREACHABLE, "told to be away"));
            }
            if self.roll(0.02) {
                return Outcome::rejected(Cause::new(code::REFUSED, "told to refuse"));
            }
            let number = String::from_utf8_lossy(&message.payload).parse().unwrap();
            self.taken.lock().unwrap().push((message.key.clone().unwrap_or_default(), number));
            Outcome::Delivered
        };
        messages.iter().map(one).collect()
    }
}

fn relay(
    ground: &impl Ground,
    sink: &Arc<Moody>,
    reading: &Reading,
    stop: &CancellationToken,
) -> JoinSet<outbox::Result<()>> {
    let mut pipes = JoinSet::new();
    for source in ground.sources(reading) {
        let brief =
            |first, most| Backoff { first: Duration::from_millis(first), most: Duration::from_millis(most) };
        let policy = Policy {
            order: if reading.ordered { Order::Key } else { Order::None },
            attempts: 1_000,
            retry: brief(5, 50),
            probe: brief(5, 50),
            ..Policy::default()
        };
        let pipe =
            Pipe::new(source, sink.clone()).policy(policy).batch(20).depth(3).idle(Duration::from_millis(20));
        pipes.spawn(pipe.run(stop.clone()));
    }
    pipes
}

/// Writes `count` messages, number by number of each key.
async fn produce(ground: Arc<impl Ground>, keys: std::ops::Range<u32>, count: u32) {
    for number in 0..count {
        for key in keys.clone() {
            let message = Message::new("chaos.tested", number.to_string()).key(format!("k{key}"));
            ground.write_one(&message).await;
        }
    }
}

/// Each key's numbers, as they came for the first time, must count up.
fn check_order(taken: &[(String, u32)], keys: u32, count: u32) {
    let mut next: HashMap<&str, u32> = HashMap::new();
    for (at, (key, number)) in taken.iter().enumerate() {
        let expected = next.entry(key).or_default();
        assert!(number <= expected, "{key}: {number} came at {at} before {expected}");
        if number == expected {
            *expected += 1;
        }
    }
    assert_eq!(next.len(), keys as usize);
    assert!(next.values().all(|next| *next == count), "{next:?}");
}

/// A relay that is never idle, and another that comes to help.
pub(crate) async fn gives_lanes_back(ground: Option<impl Ground>) {
    let Some(ground) = ground else { return };
    for message in busy::work() {
        ground.write_one(&message).await;
    }
    let reading = Reading { lanes: busy::LANES, ..Reading::default() };
    busy::assert_lanes_are_given_back(&ground.sources(&reading), &ground.sources(&reading)).await;
}

/// Lets three relays live through it; gives how many messages came, and how many there were.
pub(crate) async fn live(
    seed: u64,
    ground: Option<impl Ground>,
    reading: Reading,
    kill: bool,
) -> Option<(usize, usize)> {
    let ground = Arc::new(ground?);
    let (keys, count) = (8, 60);
    let mut dice = StdRng::seed_from_u64(seed);
    let sink = Moody::new(seed);
    let mut producers = JoinSet::new();
    for half in 0..2 {
        let range = half * keys / 2..(half + 1) * keys / 2;
        producers.spawn(produce(ground.clone(), range, count));
    }
    let mut relays = Vec::new();
    for number in 0..3 {
        let reading = Reading { owner: format!("relay-{number}"), ..reading.clone() };
        let stop = CancellationToken::new();
        relays.push((relay(&*ground, &sink, &reading, &stop), stop, reading));
    }
    let begun = std::time::Instant::now();
    while !producers.is_empty() || (kill && begun.elapsed() < Duration::from_secs(5)) {
        tokio::select! {
            Some(done) = producers.join_next(), if !producers.is_empty() => done.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(150)) => {}
        }
        if !kill {
            continue;
        }
        if dice.random_bool(0.6) {
            ground.cut_a_session().await;
        } else {
            let at = dice.random_range(0..relays.len());
            let (pipes, stop, reading) = &mut relays[at];
            stop.cancel();
            while let Some(ended) = pipes.join_next().await {
                ended.unwrap().expect("a pipe ends well");
            }
            *stop = CancellationToken::new();
            *pipes = relay(&*ground, &sink, reading, stop);
        }
    }
    sink.calm.store(true, Ordering::Relaxed);
    let patience = tokio::time::timeout(Duration::from_secs(60), async {
        while ground.pending().await > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    patience.await.unwrap_or_else(|_| panic!("seed {seed}: something is left"));
    for (pipes, stop, _) in &mut relays {
        stop.cancel();
        while let Some(ended) = pipes.join_next().await {
            ended.unwrap().expect("a pipe ends well");
        }
    }
    let taken = sink.taken.lock().unwrap().clone();
    if reading.ordered {
        check_order(&taken, keys, count);
    }
    let mut once = taken.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), (keys * count) as usize, "seed {seed}: nothing is lost");
    Some((sink.count(), once.len()))
}

pub(crate) fn seed() -> u64 {
    let seed =
        std::env::var("OUTBOX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    eprintln!("OUTBOX_SEED={seed}");
    seed
}

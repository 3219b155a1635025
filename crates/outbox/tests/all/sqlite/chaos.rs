//! A long random life of one cursor: several claims open, every verdict, crashes, takeovers, repeated settles,
//! repairs, replays and purges. Whatever happens, nothing is lost and no key overtakes itself. Seeds are printed.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use outbox::admin::{Admin, Filter, Repair, ReplayFrom, Stand};
use outbox::sqlite::Cursor;
use outbox::{Claim, Message, Source, Verdict};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Fresh, dead, retry};

const KEYS: usize = 4;

struct Open {
    claim: Claim,
    /// Keys of which an earlier claim decided one as not done, after this claim was made.
    barred: HashSet<String>,
}

struct Life {
    fresh: Fresh,
    cursor: Cursor,
    random: StdRng,
    open: VecDeque<Open>,
    /// Everything that was written, by key, with whether it is over and done with.
    written: BTreeMap<String, Vec<(String, bool)>>,
    count: usize,
    holds: bool,
}

impl Life {
    async fn new(seed: u64) -> Self {
        let fresh = Fresh::new().await;
        let cursor = fresh.outbox.cursor("relay");
        let (open, written) = (VecDeque::new(), BTreeMap::new());
        let mut random = StdRng::seed_from_u64(seed);
        let holds = random.random_bool(0.5);
        Self { fresh, cursor, random, open, written, count: 0, holds }
    }

    async fn write(&mut self) {
        let mut messages = Vec::new();
        for _ in 0..self.random.random_range(1..6) {
            let key = format!("k{}", self.random.random_range(0..KEYS));
            let name = format!("{:05}", self.count);
            self.count += 1;
            messages.push(Message::new("a", name.clone()).id(name.as_str()).key(&key));
            self.written.entry(key).or_default().push((name, false));
        }
        let mut conn = self.fresh.outbox.pool().acquire().await.unwrap();
        self.fresh.outbox.enqueue_all(&mut conn, &messages).await.unwrap();
    }

    async fn claim(&mut self) {
        let limit = self.random.random_range(1..8);
        let claim = self.cursor.claim(limit).await.unwrap();
        let out: HashSet<&str> = self
            .open
            .iter()
            .flat_map(|open| &open.claim.messages)
            .map(|message| message.id.as_str())
            .collect();
        for message in &claim.messages {
            assert!(!out.contains(message.id.as_str()), "{} is in two claims", message.id);
        }
        if !claim.messages.is_empty() {
            self.open.push_back(Open { claim, barred: HashSet::new() });
        }
    }

    /// Decides as a pipe under key order would, and settles the oldest claim.
    async fn settle(&mut self, all_done: bool) {
        let Some(mut open) = self.open.pop_front() else { return };
        let mut verdicts = Vec::new();
        for (index, message) in open.claim.messages.iter().enumerate() {
            let key = message.key.clone().unwrap();
            let verdict = if open.claim.is_held(index) || open.barred.contains(&key) {
                Verdict::Behind
            } else {
                match self.random.random_range(0..10) {
                    _ if all_done => Verdict::Done,
                    0..5 => Verdict::Done,
                    5 | 6 => retry(self.random.random_range(0..3)),
                    7 => dead(self.holds),
                    _ => Verdict::Released,
                }
            };
            let bars = !matches!(verdict, Verdict::Done | Verdict::Dead { holds: false, .. });
            if bars {
                open.barred.insert(key);
            }
            verdicts.push(verdict);
        }
        if self.random.random_bool(0.2) {
            // Given up half-way, with an outcome that nobody knows; a pipe would look at the source meanwhile.
            let moment = Duration::from_micros(self.random.random_range(0..1500));
            let _ = tokio::time::timeout(moment, self.cursor.settle(&open.claim, &verdicts)).await;
            self.claim().await;
            if let Some(newest) = self.open.back_mut() {
                newest.barred.extend(open.barred.iter().cloned());
            }
        }
        self.cursor.settle(&open.claim, &verdicts).await.unwrap();
        if self.random.random_bool(0.2) {
            self.cursor.settle(&open.claim, &verdicts).await.unwrap();
        }
        for (message, verdict) in open.claim.messages.iter().zip(&verdicts) {
            match verdict {
                Verdict::Done => self.over(message, true),
                Verdict::Dead { holds: false, .. } => self.over(message, false),
                _ => {}
            }
        }
        for later in &mut self.open {
            later.barred.extend(open.barred.iter().cloned());
        }
    }

    /// A message is done (or let go): all earlier ones of its key must be.
    fn over(&mut self, message: &Message, is_done: bool) {
        let name = message.id.as_str();
        let line = self.written.get_mut(message.key.as_ref().unwrap()).unwrap();
        let place = line.iter().position(|(written, _)| written == name).unwrap();
        if is_done && self.holds {
            let early = line[..place].iter().find(|(_, over)| !over);
            assert_eq!(early, None, "{name} overtook it");
        }
        line[place].1 = true;
    }

    /// The process dies: claims are gone, and the lease runs out. The next one may be any other.
    async fn crash(&mut self) {
        self.open.clear();
        self.cursor = self.fresh.outbox.cursor("relay");
        self.fresh.expire_lease("relay").await;
    }

    async fn repair(&mut self) {
        let dead_ones = Filter { stand: Some(Stand::Dead), limit: 1, ..Filter::default() };
        if self.random.random_bool(0.5) {
            self.fresh.outbox.repair(&dead_ones, Repair::Retry, false).await.unwrap();
            return;
        }
        let Some(entry) = self.fresh.outbox.list(&dead_ones).await.unwrap().pop() else { return };
        let it = Filter { id: Some(entry.id.clone()), ..Filter::default() };
        assert_eq!(self.fresh.outbox.repair(&it, Repair::Skip, false).await.unwrap(), 1);
        let line = self.written.get_mut(entry.key.as_ref().unwrap()).unwrap();
        let place = line.iter_mut().find(|(name, _)| name == entry.id.as_str()).unwrap();
        place.1 = true;
    }

    async fn replay(&mut self) {
        let entries = self.fresh.outbox.list(&Filter { limit: 1000, ..Filter::default() }).await.unwrap();
        if entries.is_empty() {
            return;
        }
        let from = &entries[self.random.random_range(0..entries.len())];
        let (start, cursor) = (ReplayFrom::Message(from.id.clone()), "relay");
        let Ok(count) = self.fresh.outbox.replay(cursor, &start, false).await else { return };
        assert!(count > 0);
        // What was purged cannot come again.
        let again: HashSet<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
        for (name, over) in self.written.values_mut().flatten() {
            if name.as_str() >= from.id.as_str() && again.contains(name.as_str()) {
                *over = false;
            }
        }
        // What is open is lost; a pipe learns it when it settles.
        for open in std::mem::take(&mut self.open) {
            let verdicts = vec![Verdict::Done; open.claim.messages.len()];
            self.cursor.settle(&open.claim, &verdicts).await.unwrap_err();
        }
    }

    async fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..25 => self.write().await,
            25..60 if self.open.len() < 4 => self.claim().await,
            25..92 => self.settle(false).await,
            92..94 => self.crash().await,
            94..97 => self.repair().await,
            97 => self.replay().await,
            _ => {
                self.fresh.outbox.purge(Duration::ZERO, 20, false).await.unwrap();
            }
        }
    }

    /// Everything goes well from now on, and a person retries what is dead: all must be over in the end.
    async fn end(&mut self) {
        for _ in 0..1000 {
            self.fresh.outbox.repair(&Filter::default(), Repair::Retry, false).await.unwrap();
            self.claim().await;
            if self.open.is_empty() && self.is_over().await {
                return;
            }
            while !self.open.is_empty() {
                self.settle(true).await;
            }
        }
        let lost: Vec<_> = self.written.values().flatten().filter(|(_, over)| !over).collect();
        panic!("never came: {lost:?}");
    }

    async fn is_over(&self) -> bool {
        let status = self.fresh.outbox.status().await.unwrap();
        let left: u64 = status.iter().map(|lane| lane.pending + lane.waiting + lane.behind + lane.dead).sum();
        left == 0
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_and_no_key_overtakes_itself_whatever_happens() {
    let seeds: Vec<u64> = match std::env::var("OUTBOX_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..4).map(|_| rand::random()).collect(),
    };
    for seed in seeds {
        eprintln!("OUTBOX_SEED={seed}");
        let mut life = Life::new(seed).await;
        for _ in 0..400 {
            life.step().await;
        }
        life.end().await;
        let lost: Vec<_> = life.written.values().flatten().filter(|(_, over)| !over).collect();
        assert!(lost.is_empty(), "never came: {lost:?}");
    }
}

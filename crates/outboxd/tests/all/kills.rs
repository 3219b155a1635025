//! Relays that are killed with SIGKILL, one after the other, while somebody writes; and what must hold in the end.
//!
//! For any source and any sink. A test configures a [`Program`], notes every event in a [`Ledger`] once its commit has
//! returned, and has [`Kills`] end one relay after another. Then it lets a last relay finish, and checks what arrived.
//!
//! `OUTBOX_KILLS` sets how many relays are killed in all (200), `OUTBOX_SEED` repeats the choices of a run.

use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::program::{PATIENCE, Program, Running};

/// Steps of `outbox::failpoint::STEPS` that a relay of a mapped table passes with every claim.
pub const STEPS: [&str; 8] = [
    "claiming",
    "claimed",
    "delivering",
    "delivered",
    "settling",
    "settle_before_commit",
    "settle_after_commit",
    "settled",
];

/// The longest life of a relay that is killed by the clock.
const LIFE: Duration = Duration::from_millis(600);

const TICK: Duration = Duration::from_millis(10);

/// The choices of a run.
pub struct Kills {
    seed: u64,
    random: StdRng,
    count: usize,
    done: usize,
}

impl Kills {
    /// For a test that asks for so many of a thousand kills.
    pub fn new(name: &str, of_thousand: usize) -> Self {
        let all: usize = variable("OUTBOX_KILLS").unwrap_or(200);
        let seed = variable("OUTBOX_SEED").unwrap_or_else(rand::random);
        // Shown when the test fails.
        eprintln!("{name}: OUTBOX_SEED={seed}");
        let count = (all * of_thousand).div_ceil(1000);
        Self { seed, random: StdRng::seed_from_u64(seed), count, done: 0 }
    }

    /// A source of choices for whoever writes.
    pub fn random(&mut self) -> StdRng {
        StdRng::seed_from_u64(self.random.random())
    }

    /// Starts relays with these arguments and kills them: some at one of `steps`, if the program has failpoints, the
    /// others whenever it may be.
    pub async fn run(&mut self, program: &Program, args: &[&str], steps: &[&str]) {
        for _ in 0..self.count {
            let by_step = cfg!(feature = "failpoints") && !steps.is_empty() && self.random.random_bool(0.5);
            let step = if by_step { steps.choose(&mut self.random).copied() } else { None };
            self.one_life(program, args, step).await;
            self.done += 1;
        }
    }

    /// Kills the active one of two relays, and starts another that stands by, again and again; gives the one that is
    /// left. `active` is what a relay says when it takes over, and it has `limit` to do so.
    pub async fn run_with_standby(
        &mut self,
        program: &Program,
        args: &[&str],
        active: &str,
        limit: Duration,
    ) -> Running {
        let mut owner = program.start(args);
        owner.wait_for(active);
        for _ in 0..self.count {
            let mut standby = program.start(args);
            standby.wait_for("started");
            tokio::time::sleep(LIFE.mul_f64(self.random.random())).await;
            owner.kill();
            self.done += 1;
            let killed = Instant::now();
            standby.wait_for(active);
            let waited = killed.elapsed();
            self.check(waited < limit, &format!("taken over after {waited:?}"), &standby.said());
            owner = standby;
        }
        owner
    }

    async fn one_life(&mut self, program: &Program, args: &[&str], step: Option<&str>) {
        let mut command = program.command(args);
        let failpoints = step.map(|step| format!("{step}={}*off->return", self.random.random_range(1..8)));
        if let Some(failpoints) = &failpoints {
            command.env("OUTBOX_FAILPOINTS", failpoints);
        }
        let mut relay = Program::begin(&mut command);
        // Counted from when it is up, or most would die before they had done anything.
        while !relay.heard().iter().any(|line| line.contains("started")) {
            self.check(relay.ended().is_none(), "it ended by itself", &relay.said());
            tokio::time::sleep(TICK).await;
        }
        let (began, life) = (Instant::now(), LIFE.mul_f64(self.random.random()));
        loop {
            if let Some(status) = relay.ended() {
                let killed = step.is_some() && status.signal() == Some(9);
                self.check(killed, &format!("it ended with {status}"), &relay.said());
                return;
            }
            if step.is_none() && began.elapsed() >= life {
                relay.kill();
                return;
            }
            relay.heard();
            self.check(
                began.elapsed() < PATIENCE,
                &format!("{failpoints:?} was never passed"),
                &relay.said(),
            );
            tokio::time::sleep(TICK).await;
        }
    }

    fn check(&self, holds: bool, what: &str, said: &str) {
        let (seed, done) = (self.seed, self.done);
        assert!(holds, "OUTBOX_SEED={seed}, after {done} kills: {what}\n{said}");
    }
}

/// The ids of what was committed, and of nothing else.
#[derive(Debug, Default)]
pub struct Ledger {
    committed: Mutex<HashSet<String>>,
}

/// What arrived, compared with what was committed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub lost: Vec<String>,
    pub phantom: Vec<String>,
    pub duplicates: usize,
}

impl Ledger {
    /// Notes an event whose commit has returned.
    pub fn note(&self, id: impl ToString) {
        self.committed.lock().unwrap().insert(id.to_string());
    }

    /// Every id, sorted.
    pub fn ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.committed.lock().unwrap().iter().cloned().collect();
        ids.sort();
        ids
    }

    pub fn len(&self) -> usize {
        self.committed.lock().unwrap().len()
    }

    /// Compares with the ids that arrived.
    pub fn check<'a>(&self, arrivals: impl IntoIterator<Item = &'a str>) -> Report {
        let committed = self.committed.lock().unwrap();
        let (mut report, mut seen) = (Report::default(), HashSet::new());
        for id in arrivals {
            if !committed.contains(id) {
                report.phantom.push(id.to_owned());
            } else if !seen.insert(id) {
                report.duplicates += 1;
            }
        }
        report.lost = committed.iter().filter(|id| !seen.contains(id.as_str())).cloned().collect();
        report
    }

    /// Fails unless everything arrived, nothing else did, and no more came twice than the kills explain: each may
    /// repeat a `window`, which is what a relay has in flight.
    pub fn assert_arrived<'a>(
        &self,
        arrivals: impl IntoIterator<Item = &'a str>,
        kills: &Kills,
        window: usize,
    ) {
        let report = self.check(arrivals);
        let (seed, done) = (kills.seed, kills.done);
        let told = format!("OUTBOX_SEED={seed}, {done} kills, {} events: {report:?}", self.len());
        eprintln!("{done} kills, {} events, {} duplicates", self.len(), report.duplicates);
        assert!(report.lost.is_empty(), "lost: {told}");
        assert!(report.phantom.is_empty(), "phantom: {told}");
        assert!(report.duplicates <= done * window, "more duplicates than the kills explain: {told}");
    }
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn a_ledger_sees_what_is_lost_made_up_or_repeated() {
    let ledger = Ledger::default();
    ["a", "b"].iter().for_each(|id| ledger.note(id));
    assert_eq!(ledger.check(["b", "a"]), Report::default());
    assert_eq!(ledger.check(["b", "a", "b"]).duplicates, 1);
    assert_eq!(ledger.check(["b"]).lost, ["a"]);
    assert_eq!(ledger.check(["a", "b", "c"]).phantom, ["c"]);
}

//! Common to all scenarios: what is read before and after a run, and what one run came to.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::Bench;
use super::processes::{self, cpu_of};
use super::relay::Relay;

/// What a run is for the one of outboxd beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// What is measured.
    Ours,
    /// As fast as it can be.
    Limit,
    /// What people write by hand.
    Loop,
    /// Shown beside it, for those who wonder.
    Beside,
    /// The writing of the messages that are carried.
    Writing,
}

/// How long messages took, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) most: f64,
}

impl Latency {
    /// Of so many; of none there is none.
    pub(super) fn of(mut all: Vec<Duration>) -> Option<Self> {
        all.sort_unstable();
        // The nearest rank: a latency that some message really had.
        let rank = |part: f64| all[((all.len() as f64 * part).ceil() as usize).clamp(1, all.len()) - 1];
        let ms = |part: f64| rank(part).as_secs_f64() * 1_000.0;
        (!all.is_empty()).then(|| Self { p50: ms(0.5), p99: ms(0.99), p999: ms(0.999), most: ms(1.0) })
    }
}

/// CPU seconds: of outboxd (or of what stands in its place), of the database's server and of the broker's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Cpu {
    pub(super) ours: Option<f64>,
    pub(super) database: Option<f64>,
    pub(super) broker: Option<f64>,
}

impl Cpu {
    fn map(self, each: impl Fn(f64) -> f64) -> Self {
        Self {
            ours: self.ours.map(&each),
            database: self.database.map(&each),
            broker: self.broker.map(&each),
        }
    }

    fn since(self, before: Self) -> Self {
        let since = |now: Option<f64>, before: Option<f64>| Some((now? - before?).max(0.0));
        Self {
            ours: since(self.ours, before.ours),
            database: since(self.database, before.database),
            broker: since(self.broker, before.broker),
        }
    }
}

/// What PostgreSQL counts: tuples that were made dead, and bytes of its journal. Of the whole database and the
/// whole server, so nobody else may write to it meanwhile.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Book {
    pub(super) dead_tuples: f64,
    pub(super) wal_bytes: f64,
}

/// What one run came to.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Run {
    pub(super) what: String,
    #[serde(skip)]
    pub(super) role: Role,
    pub(super) messages: u64,
    pub(super) seconds: f64,
    pub(super) per_second: f64,
    pub(super) latency_ms: Option<Latency>,
    /// From the writing of a message to its confirmation, by the relay's own figures.
    pub(super) confirm_ms: Option<Latency>,
    pub(super) cpu_seconds_per_million: Cpu,
    /// What was used of one core, in percent.
    pub(super) core_percent: Cpu,
    pub(super) peak_memory_kib: Option<u64>,
    pub(super) dead_tuples_per_message: Option<f64>,
    pub(super) wal_bytes_per_message: Option<f64>,
}

/// So many messages in so long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// All that were carried.
    pub(super) carried: u64,
    /// Those of the time that counts.
    pub(super) messages: u64,
    pub(super) took: Duration,
}

impl Pace {
    /// Of so many, the first of which was out at that moment: what it takes to begin does not count.
    pub(super) fn since_first(carried: u64, first: Instant) -> Self {
        Self { carried, messages: carried.saturating_sub(1), took: first.elapsed() }
    }

    fn per_second(self) -> f64 {
        if self.took.is_zero() { 0.0 } else { self.messages as f64 / self.took.as_secs_f64() }
    }
}

/// So long sessions of PostgreSQL that were left may take to end, and to tell what they counted.
const TOLD: Duration = Duration::from_millis(500);

/// Reads before a run and after it.
pub(super) struct Watch<'b> {
    bench: &'b Bench<'b>,
    /// The process that does the work.
    pid: u32,
    begun: Instant,
    cpu: Cpu,
    book: Option<Book>,
}

impl<'b> Watch<'b> {
    /// For work of this process.
    pub(super) async fn here(bench: &'b Bench<'b>) -> Self {
        Self::of(bench, std::process::id()).await
    }

    /// For a relay.
    pub(super) async fn relay(bench: &'b Bench<'b>, relay: &Relay) -> Self {
        Self::of(bench, relay.pid()).await
    }

    async fn of(bench: &'b Bench<'b>, pid: u32) -> Self {
        let book = bench.ground.database.book().await;
        Self { bench, pid, begun: Instant::now(), cpu: cpu(bench, pid), book }
    }

    /// How long it has been.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// What the run came to. The process must still be there.
    pub(super) fn run(&self, what: impl Into<String>, role: Role, pace: Pace) -> Run {
        let carried = pace.carried;
        let used = cpu(self.bench, self.pid).since(self.cpu);
        let per_million = |seconds: f64| seconds * 1_000_000.0 / carried.max(1) as f64;
        Run {
            what: what.into(),
            role,
            messages: carried,
            seconds: pace.took.as_secs_f64(),
            per_second: pace.per_second(),
            latency_ms: None,
            confirm_ms: None,
            cpu_seconds_per_million: if carried == 0 { Cpu::default() } else { used.map(per_million) },
            core_percent: used.map(|seconds| processes::percent(seconds, self.elapsed())),
            // That of this process is no measure of anything.
            peak_memory_kib: Some(self.pid)
                .filter(|pid| *pid != std::process::id())
                .and_then(processes::peak_memory_kib),
            dead_tuples_per_message: None,
            wal_bytes_per_message: None,
        }
    }

    /// The same for work of this process: all of it, in the time since the start.
    pub(super) async fn all(self, what: impl Into<String>, role: Role, messages: u64) -> Run {
        let pace = Pace { carried: messages, messages, took: self.elapsed() };
        self.at(what, role, pace).await
    }

    /// The same at a pace that the work itself has told.
    pub(super) async fn at(self, what: impl Into<String>, role: Role, pace: Pace) -> Run {
        let run = self.run(what, role, pace);
        self.booked(run).await
    }

    /// Adds what the database has counted, once those who worked with it are gone: sessions tell it at their end.
    pub(super) async fn booked(self, mut run: Run) -> Run {
        if self.book.is_some() {
            tokio::time::sleep(TOLD).await;
        }
        let after = self.bench.ground.database.book().await;
        if let (Some(before), Some(after), true) = (self.book, after, run.messages > 0) {
            let each = |after: f64, before: f64| (after - before).max(0.0) / run.messages as f64;
            run.dead_tuples_per_message = Some(each(after.dead_tuples, before.dead_tuples));
            run.wal_bytes_per_message = Some(each(after.wal_bytes, before.wal_bytes));
        }
        run
    }
}

fn cpu(bench: &Bench<'_>, pid: u32) -> Cpu {
    Cpu {
        ours: cpu_of(pid),
        database: bench.ground.database.server().and_then(processes::Server::cpu),
        broker: bench.broker.and_then(processes::Server::cpu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_that_was_met() {
        let all = (1..=1_000).map(Duration::from_millis).collect();
        let expected = Latency { p50: 500.0, p99: 990.0, p999: 999.0, most: 1_000.0 };
        assert_eq!(Latency::of(all), Some(expected));
        let one = Latency::of(vec![Duration::from_millis(7)]).expect("it is there");
        assert_eq!((one.p50, one.p999), (7.0, 7.0));
        assert_eq!(Latency::of(Vec::new()), None);
    }

    #[test]
    fn what_is_not_known_before_or_after_is_not_known() {
        let before = Cpu { ours: Some(1.0), database: None, broker: Some(2.0) };
        let after = Cpu { ours: Some(3.5), database: Some(9.0), broker: None };
        assert_eq!(after.since(before), Cpu { ours: Some(2.5), database: None, broker: None });
    }
}

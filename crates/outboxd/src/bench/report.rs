//! What was measured, for people and for scripts.

use serde::Serialize;

use super::goals::{self, Goal};
use super::measure::{Role, Run};
use crate::cli::args::BenchArgs;
use crate::cli::output::Output;

/// Everything.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) version: &'static str,
    pub(super) seed: u32,
    pub(super) cores: Option<usize>,
    pub(super) database: String,
    pub(super) messages: u64,
    pub(super) rate: u64,
    pub(super) size: u64,
    pub(super) keys: u64,
    pub(super) rounds: u32,
    pub(super) scenarios: Vec<Scene>,
    pub(super) goals: Vec<Goal>,
    pub(super) left_out: Vec<String>,
}

/// A scenario from a source to a sink.
#[derive(Debug, Serialize)]
pub(super) struct Scene {
    pub(super) scenario: &'static str,
    pub(super) source: &'static str,
    pub(super) sink: &'static str,
    pub(super) runs: Vec<Row>,
}

/// A run, the middle one of several rounds, and what it is beside the others.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) run: Run,
    pub(super) slowest_per_second: f64,
    pub(super) fastest_per_second: f64,
    pub(super) ratio_to_limit: Option<f64>,
    pub(super) ratio_to_loop: Option<f64>,
}

impl Scene {
    /// Of several rounds the middle: of rates, and of ratios within one round. Of memory the most.
    pub(super) fn gather(
        scenario: &'static str,
        source: &'static str,
        sink: &'static str,
        rounds: Vec<Vec<Run>>,
    ) -> Self {
        let count = rounds.iter().map(Vec::len).min().unwrap_or_default();
        let row = |at: usize| {
            let mut runs: Vec<&Run> = rounds.iter().map(|round| &round[at]).collect();
            runs.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
            let ratio =
                |role| middle(rounds.iter().filter_map(|round| ratio(&round[at], round, role)).collect());
            let peak_memory_kib = runs.iter().filter_map(|run| run.peak_memory_kib).max();
            Row {
                run: Run { peak_memory_kib, ..runs[runs.len() / 2].clone() },
                slowest_per_second: runs[0].per_second,
                fastest_per_second: runs[runs.len() - 1].per_second,
                ratio_to_limit: ratio(Role::Limit),
                ratio_to_loop: ratio(Role::Loop),
            }
        };
        Self { scenario, source, sink, runs: (0..count).map(row).collect() }
    }

    /// The run of outboxd.
    pub(super) fn ours(&self) -> Option<&Row> {
        self.of(Role::Ours)
    }

    /// The first run of this role.
    pub(super) fn of(&self, role: Role) -> Option<&Row> {
        self.runs.iter().find(|row| row.run.role == role)
    }
}

fn ratio(run: &Run, round: &[Run], role: Role) -> Option<f64> {
    let other = round.iter().find(|other| other.role == role)?;
    let is_itself = run.role == role || run.role == Role::Writing;
    (!is_itself && other.per_second > 0.0).then(|| run.per_second / other.per_second)
}

fn middle(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

impl Report {
    /// Of nothing so far.
    pub(super) fn new(args: &BenchArgs, database: String) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            seed: args.seed.unwrap_or_else(rand::random),
            cores: std::thread::available_parallelism().ok().map(Into::into),
            database,
            messages: args.messages,
            rate: args.rate,
            size: args.size,
            keys: args.keys,
            rounds: args.rounds,
            scenarios: Vec::new(),
            goals: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Adds what should hold.
    pub(super) fn judged(mut self) -> Self {
        let rate = self.rate;
        self.goals = self.scenarios.iter().flat_map(|scene| goals::of(scene, rate)).collect();
        self
    }

    pub(super) fn print(&self, output: &mut Output) -> std::io::Result<()> {
        if output.is_json() {
            return output.json(self);
        }
        let (version, seed, database) = (self.version, self.seed, &self.database);
        let cores = self.cores.map(|cores| format!(", {cores} cores")).unwrap_or_default();
        output.line(format!("outboxd {version}, {database}{cores}, seed {seed}"))?;
        let header = [
            "scenario",
            "from",
            "to",
            "what",
            "messages",
            "per s",
            "of limit",
            "of loop",
            "p50 ms",
            "p99 ms",
            "p99.9 ms",
            "cpu/M",
            "db cpu/M",
            "broker cpu/M",
            "core %",
            "peak MiB",
            "dead tuples",
            "wal bytes",
        ];
        let rows: Vec<Vec<String>> = self.scenarios.iter().flat_map(rows).collect();
        output.line("")?;
        output.table(&header, &rows)?;
        if !self.goals.is_empty() {
            output.line("")?;
            let goals: Vec<Vec<String>> = self.goals.iter().map(Goal::cells).collect();
            output.table(&["scenario", "goal", "from", "to", "should be", "is", "holds"], &goals)?;
        }
        for left_out in &self.left_out {
            output.note(format!("left out: {left_out}"));
        }
        Ok(())
    }
}

fn rows(scene: &Scene) -> impl Iterator<Item = Vec<String>> {
    scene.runs.iter().map(|row| {
        let Row { run, ratio_to_limit, ratio_to_loop, .. } = row;
        let (cpu, latency) = (run.cpu_seconds_per_million, run.latency_ms);
        vec![
            scene.scenario.to_owned(),
            scene.source.to_owned(),
            scene.sink.to_owned(),
            run.what.clone(),
            run.messages.to_string(),
            format!("{:.0}", run.per_second),
            number(*ratio_to_limit, 2),
            number(*ratio_to_loop, 1),
            number(latency.map(|latency| latency.p50), 1),
            number(latency.map(|latency| latency.p99), 1),
            number(latency.map(|latency| latency.p999), 1),
            number(cpu.ours, 1),
            number(cpu.database, 1),
            number(cpu.broker, 1),
            number(run.core_percent.ours, 1),
            number(run.peak_memory_kib.map(|kib| kib as f64 / 1024.0), 1),
            number(run.dead_tuples_per_message, 3),
            number(run.wal_bytes_per_message, 0),
        ]
    })
}

/// What is not known is a dash.
pub(super) fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::measure::Cpu;
    use super::*;

    /// A run of this rate, of which nothing else is known.
    pub(in crate::bench) fn run(role: Role, per_second: f64) -> Run {
        Run {
            what: format!("{role:?}"),
            role,
            messages: 100,
            seconds: 1.0,
            per_second,
            latency_ms: None,
            confirm_ms: None,
            cpu_seconds_per_million: Cpu::default(),
            core_percent: Cpu::default(),
            peak_memory_kib: None,
            dead_tuples_per_message: None,
            wal_bytes_per_message: None,
        }
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The second round met a busy machine: the rates fell, the ratio did not.
        let round = |ours, limit, by_hand| {
            let mut ours = run(Role::Ours, ours);
            ours.peak_memory_kib = Some(ours.per_second as u64);
            vec![run(Role::Limit, limit), run(Role::Loop, by_hand), ours]
        };
        let rounds = vec![round(90.0, 100.0, 3.0), round(9.0, 10.0, 0.3), round(80.0, 100.0, 3.0)];
        let scene = Scene::gather("drain", "a", "b", rounds);
        let ours = scene.ours().expect("it is there");
        assert_eq!(ours.ratio_to_limit, Some(0.9));
        assert_eq!(ours.run.peak_memory_kib, Some(90), "the most of all rounds");
        assert_eq!(
            (ours.slowest_per_second, ours.run.per_second, ours.fastest_per_second),
            (9.0, 80.0, 90.0)
        );
        assert!((ours.ratio_to_loop.expect("it is there") - 30.0).abs() < 1e-9);
        assert_eq!(scene.runs[0].ratio_to_limit, None, "it is the limit");
    }
}

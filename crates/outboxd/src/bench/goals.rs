//! What should hold, and whether it does. The figures are ratios within one run wherever they can be: machines differ.

use serde::Serialize;

use super::measure::Role;
use super::report::{Row, Scene, number};

/// Something that should hold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Goal {
    pub(super) scenario: &'static str,
    pub(super) what: &'static str,
    pub(super) source: &'static str,
    pub(super) sink: &'static str,
    pub(super) at_least: Option<f64>,
    pub(super) at_most: Option<f64>,
    pub(super) found: f64,
    pub(super) holds: bool,
}

impl Goal {
    /// As a row of a table.
    pub(super) fn cells(&self) -> Vec<String> {
        let bound = match (self.at_least, self.at_most) {
            (Some(least), _) => format!("at least {least}"),
            (None, most) => format!("at most {}", most.unwrap_or_default()),
        };
        let holds = if self.holds { "yes" } else { "no" };
        let found = number(Some(self.found), 2);
        let scenario = self.scenario.to_owned();
        vec![scenario, self.what.into(), self.source.into(), self.sink.into(), bound, found, holds.into()]
    }
}

/// The load for which latency has a goal.
const RATE: u64 = 1_000;

/// The goals of a scenario, of those for which there are figures.
pub(super) fn of(scene: &Scene, rate: u64) -> Vec<Goal> {
    let Some(ours) = scene.ours() else { return Vec::new() };
    let mut goals = Vec::new();
    let mut least = |what, at_least: f64, found: Option<f64>| {
        goals.extend(found.map(|found| goal(scene, what, Some(at_least), None, found)));
    };
    match (scene.scenario, scene.source, scene.sink) {
        ("drain", "postgres", "rabbitmq quorum") => {
            least("of the raw client", 0.9, ours.ratio_to_limit);
            least("times the loop by hand", 30.0, ours.ratio_to_loop);
        }
        ("drain", "postgres", "rabbitmq classic") => {
            least("times the loop by hand", 30.0, ours.ratio_to_loop);
        }
        ("drain", "postgres", "kafka") => least("of the raw client", 0.7, ours.ratio_to_limit),
        ("consumer", "sqlite", _) => least("of the bare two statements", 0.7, ours.ratio_to_limit),
        ("backlog", ..) => least("of the rate with few waiting", 0.9, ours.ratio_to_limit),
        _ => {}
    }
    let mut most = |what, at_most: f64, found: Option<f64>| {
        goals.extend(found.map(|found| goal(scene, what, None, Some(at_most), found)));
    };
    if scene.scenario == "steady" && rate == RATE {
        // Of a confirm it is known when its INSERT began, of an arrival when its COMMIT was answered.
        let (confirm, arrival) = (ours.run.confirm_ms, ours.run.latency_ms);
        most("ms from the INSERT to the confirm, p50", 5.0, confirm.map(|latency| latency.p50));
        most("ms from the INSERT to the confirm, p99", 20.0, confirm.map(|latency| latency.p99));
        most("ms from the COMMIT to the arrival, p50", 5.0, arrival.map(|latency| latency.p50));
        most("ms from the COMMIT to the arrival, p99", 20.0, arrival.map(|latency| latency.p99));
    }
    if scene.scenario == "idle" {
        most("% of a core", 0.5, ours.run.core_percent.ours);
    }
    most("database time of a message, against its INSERT", 0.2, against_insert(scene, ours));
    let memory = if scene.sink == "kafka" { 96.0 } else { 64.0 };
    // Also beside what counts: of a sink that was blocked, when it has to catch up.
    let peak = scene.runs.iter().filter_map(|row| row.run.peak_memory_kib).max();
    most("MiB of memory", memory, peak.map(|kib| kib as f64 / 1024.0));
    goals
}

fn goal(scene: &Scene, what: &'static str, at_least: Option<f64>, at_most: Option<f64>, found: f64) -> Goal {
    let holds = at_least.is_none_or(|least| found >= least) && at_most.is_none_or(|most| found <= most);
    Goal {
        scenario: scene.scenario,
        what,
        source: scene.source,
        sink: scene.sink,
        at_least,
        at_most,
        found,
        holds,
    }
}

/// What the database worked for a message of the relay, against what it worked for its INSERT.
fn against_insert(scene: &Scene, ours: &Row) -> Option<f64> {
    let insert = scene.of(Role::Writing)?.run.cpu_seconds_per_million.database?;
    (insert > 0.0).then(|| Some(ours.run.cpu_seconds_per_million.database? / insert))?
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Latency, Run};
    use super::super::report::tests::run;
    use super::*;

    fn found(scenario: &'static str, sink: &'static str, runs: Vec<Run>) -> Vec<(&'static str, bool)> {
        let goals = of(&Scene::gather(scenario, "postgres", sink, vec![runs]), RATE);
        goals.iter().map(|goal| (goal.what, goal.holds)).collect()
    }

    #[test]
    fn a_goal_holds_up_to_its_bound() {
        let drain = |ours| vec![run(Role::Limit, 100.0), run(Role::Ours, ours)];
        assert_eq!(found("drain", "kafka", drain(70.0)), [("of the raw client", true)]);
        assert_eq!(found("drain", "kafka", drain(69.0)), [("of the raw client", false)]);
        assert_eq!(found("drain", "file", drain(1.0)), [], "there is none for it");
    }

    #[test]
    fn memory_and_latency_have_goals_everywhere() {
        let mut ours = run(Role::Ours, 1_000.0);
        ours.peak_memory_kib = Some(80 * 1024);
        ours.latency_ms = Some(Latency { p50: 4.0, p99: 30.0, p999: 50.0, most: 60.0 });
        let latency = [
            ("ms from the COMMIT to the arrival, p50", true),
            ("ms from the COMMIT to the arrival, p99", false),
        ];
        let all = |memory| [latency[0], latency[1], ("MiB of memory", memory)];
        assert_eq!(found("steady", "kafka", vec![ours.clone()]), all(true));
        assert_eq!(found("steady", "file", vec![ours]), all(false));
    }
}

//! `bench`: how fast it is here, beside what it could be at best and beside what people write by hand.
//!
//! `ground.rs` is where it is measured: a database (`database/`) and the ways out of it (`way/`). A scenario is one
//! function in `scenario/`; what it measures with is in `measure.rs`, and the relay that it measures is `outboxd run`
//! itself (`relay.rs`). `report.rs` sets figures beside each other, `goals.rs` tells which of them should hold.

mod database;
mod goals;
mod ground;
mod load;
mod measure;
mod pacing;
mod processes;
mod relay;
mod report;
mod scenario;
mod way;

use std::fmt::Display;
use std::path::Path;

use anyhow::{Context as _, anyhow};

use indicatif::ProgressBar;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::args::{BenchArgs, Scenario};
use crate::cli::output::Output;
use crate::cli::progress;
use crate::trouble::Exit;
use ground::Ground;
use load::Load;
use processes::Server;
use report::{Report, Scene};
use way::Way;

/// What a scenario is given.
struct Bench<'b> {
    ground: &'b Ground,
    way: &'b Way,
    load: Load,
    args: &'b BenchArgs,
    /// The processes of the broker, if they are on this machine.
    broker: Option<Server>,
    output: &'b Output,
    progress: &'b ProgressBar,
    /// What is measured, in words.
    step: &'b str,
}

impl Bench<'_> {
    /// Tells how far what takes minutes has come.
    fn tell(&self, words: impl Display) {
        let words = format!("{}: {words}", self.step);
        if self.progress.is_hidden() {
            self.output.note(&words);
        }
        self.progress.set_message(words);
    }

    fn folder(&self) -> &Path {
        self.ground.folder.path()
    }
}

/// Measures, on SQLite in a temporary folder or on the connections of a configuration. What was measured is told also
/// when it ends before its time.
pub async fn bench(args: &BenchArgs, config: Option<&Path>, output: &mut Output) -> anyhow::Result<Exit> {
    let mut stops = [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?];
    let [interrupt, terminate] = &mut stops;
    let ground = Ground::open(config, args).await?;
    let mut report = Report::new(args, ground.database.version().await?);
    let (steps, left_out) = steps(args, &ground);
    report.left_out = left_out;
    let measured = tokio::select! {
        measured = measure(args, &ground, steps, output, &mut report) => Some(measured),
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
    };
    // Whatever came of it: relays have ended with what was dropped, and nothing of ours stays behind, unless somebody
    // does not want to wait for that.
    let cleaned = tokio::select! {
        cleaned = ground.clean() => cleaned,
        _ = interrupt.recv() => Err(anyhow!("it was not waited for")),
    };
    let cleaned = cleaned.context("not everything that was made was removed");
    if matches!(measured, Some(Ok(()))) || !report.scenarios.is_empty() {
        report.judged().print(output)?;
    }
    let Some(measured) = measured else { return cleaned.map(|()| Exit::Interrupted) };
    measured.and(cleaned).map(|()| Exit::Ok)
}

/// What is to be measured where, and what is not and why.
fn steps<'g>(args: &BenchArgs, ground: &'g Ground) -> (Vec<(Scenario, &'g Way)>, Vec<String>) {
    let chosen = if args.scenario.is_empty() { &Scenario::USUAL } else { args.scenario.as_slice() };
    let (mut steps, mut left_out) = (Vec::new(), ground.left_out.clone());
    for scenario in chosen {
        for (at, way) in ground.ways.iter().enumerate() {
            match scenario::reason_against(*scenario, &ground.database, way) {
                Some(reason) => {
                    let (scenario, from, to) = (scenario.as_str(), ground.database.name(), way.name());
                    left_out.push(format!("{scenario} from {from} to {to}: {reason}"));
                }
                // It has nothing to do with the way.
                None if *scenario == Scenario::Enqueue && at > 0 => {}
                None => steps.push((*scenario, way)),
            }
        }
    }
    (steps, left_out)
}

async fn measure(
    args: &BenchArgs,
    ground: &Ground,
    steps: Vec<(Scenario, &Way)>,
    output: &Output,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (size, seed) = (usize::try_from(args.size)?, report.seed);
    let load = Load { messages: args.messages, size, keys: args.keys, seed };
    let rounds = |scenario: Scenario| if scenario::is_repeated(scenario) { args.rounds } else { 1 };
    let progress = progress::steps(steps.iter().map(|(scenario, _)| u64::from(rounds(*scenario))).sum());
    for (scenario, way) in steps {
        let mut all = Vec::new();
        for round in 1..=rounds(scenario) {
            let (name, from, to) = (scenario.as_str(), ground.database.name(), to(scenario, way));
            let step = format!("{name} from {from} to {to}, round {round}");
            if progress.is_hidden() {
                output.note(&step);
            }
            progress.set_message(step.clone());
            let (broker, step, progress) = (way.server(), step.as_str(), &progress);
            let bench = Bench { ground, way, load, args, broker, output, progress, step };
            all.push(scenario::measure(scenario, &bench).await?);
            progress.inc(1);
        }
        let to = to(scenario, way);
        report.scenarios.push(Scene::gather(scenario.as_str(), ground.database.name(), to, all));
    }
    progress.finish_and_clear();
    Ok(())
}

/// Where messages go, for people.
fn to(scenario: Scenario, way: &Way) -> &'static str {
    match (scenario, way) {
        (Scenario::Enqueue, _) => "-",
        // A file cannot be blocked.
        (Scenario::Blocked, Way::File) => "http",
        _ => way.name(),
    }
}

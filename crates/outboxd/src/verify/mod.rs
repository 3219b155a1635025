//! `verify`: breaks things and counts.
//!
//! Producers write messages and note each after its commit has returned. Relays, which are this program as processes of
//! their own, carry them; a recorder notes what arrives, and a consumer with an inbox makes an effect of each message.
//! Meanwhile things break, by a [`schedule`] that the seed decides. In the end the [`ledger`] compares.

mod breaking;
mod choice;
mod fault;
#[cfg(feature = "kafka")]
mod kafka;
mod lapses;
mod ledger;
mod log;
mod place;
mod producers;
mod rabbitmq;
mod recorder;
mod relays;
mod report;
mod schedule;
mod stage;
mod tag;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use futures_util::future::join_all;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cli;
use crate::cli::args::VerifyArgs;
use crate::cli::output::Output;
use crate::trouble::{Exit, Trouble};
use choice::{choose, left_to_hooks, obstacle};
use fault::Fault;
use place::{CALM_LEASE, Folder, LANE_WINDOW, LEASE, Network, Servers, WINDOW};
use report::{Failed, Report};
use schedule::{Schedule, Step};
use stage::Stage;

/// Where there is no terminal, it is told so often how far it is.
const TELL: Duration = Duration::from_secs(60);

/// So often a fault is tried alone that never could be carried out among others.
const ALONE: u32 = 3;

/// So many kills in a row may meet nobody; then relays do not stay up, and nothing can be shown.
const UNMET: u32 = 50;

/// Whatever a panic elsewhere has left: counts are counts.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `verify`; on the servers of a configuration if one was named.
pub async fn verify(args: &VerifyArgs, config: Option<&Path>, output: &mut Output) -> anyhow::Result<Exit> {
    let folder = Folder::new(args.dir.clone())?;
    let servers = match config {
        Some(config) => Servers::of(&cli::load(config)?.connections)?,
        None => Servers::embedded(folder.path())?,
    };
    let network = Network::before(&servers, args.kafka_proxy).await?;
    let choice = choose(&args.faults, &args.hooks, &|fault| obstacle(fault, &servers, &network))?;
    if args.kills.is_some() && !choice.faults.contains(&Fault::Kill) {
        return Err(Trouble::usage(
            "--kills without the fault 'kill'",
            "add it to --faults, or use --minutes",
        )
        .into());
    }
    let seed = args.seed.unwrap_or_else(rand::random);
    output.note(format!("seed {seed}; working in {}", folder.path().display()));
    let interrupted = listen()?;
    let kinds = (servers.database.kind.as_str(), servers.broker.as_ref().map(|broker| broker.kind.as_str()));
    let mut left_out = choice.left_out;
    if args.faults.is_empty() {
        left_out.extend(left_to_hooks(&servers, &args.hooks));
    }
    let began = Instant::now();
    let is_calm = choice.faults.is_empty();
    let lease = if is_calm { CALM_LEASE } else { LEASE };
    let stage = match Stage::set(&folder, servers, network, args, seed, lease).await {
        Ok(stage) => stage,
        Err(error) => {
            // Without relays there is nothing to look at.
            if folder.path().join(relays::log_name(0)).exists() {
                keep_logs(folder, output);
            }
            return Err(error);
        }
    };
    let mut tally = Tally::default();
    let schedule = Schedule::new(seed, &choice.faults, lease);
    let broken = break_things(&stage, schedule, args, &interrupted, output, &mut tally).await;
    let ended = match broken {
        Ok(()) => stage.finish(output).await,
        Err(error) => Err(error),
    };
    let cleaned = stage.clean_up().await;
    let findings = match ended {
        Ok(findings) => findings,
        Err(error) => {
            tell_leftovers(cleaned, output);
            keep_logs(folder, output);
            return Err(error);
        }
    };
    let lapses = lapses::lapses(folder.path())?;
    let duplicate_bound = tally.bound(lapses, findings.events);
    let report = Report {
        seed,
        database: kinds.0,
        broker: kinds.1,
        seconds: began.elapsed().as_secs(),
        kills: tally.faults.get("kill").copied().unwrap_or_default(),
        faults: tally.faults,
        left_out,
        failed: tally.failed,
        findings,
        lapses,
        duplicate_bound,
        bad_ends: stage.bad_ends(),
        is_calm,
        holds: false,
    }
    .judged();
    report.print(output)?;
    report.warn(output);
    tell_leftovers(cleaned, output);
    if report.holds {
        return Ok(Exit::Ok);
    }
    stage.write_suspects(folder.path())?;
    let folder = folder.keep();
    output.note(format!(
        "the logs of the relays, and wrong.txt with the messages at fault, are in {}",
        folder.display()
    ));
    Ok(Exit::Failed)
}

fn keep_logs(folder: Folder, output: &Output) {
    output.note(format!("the logs of the relays are in {}", folder.keep().display()));
}

fn tell_leftovers(cleaned: anyhow::Result<()>, output: &Output) {
    if let Err(error) = cleaned {
        output.warning(format!("not everything could be removed: {error:#}"), "");
    }
}

/// What was broken.
#[derive(Debug, Default)]
struct Tally {
    faults: BTreeMap<String, u64>,
    failed: BTreeMap<String, Failed>,
    /// How many windows of messages may have been repeated.
    windows: u64,
}

impl Tally {
    fn note(&mut self, fault: &Fault, is_alone: bool, carried_out: &anyhow::Result<()>) {
        // What is done in steps may have broken something though it failed.
        if carried_out.is_ok()
            || matches!(fault, Fault::Hook(..) | Fault::Relays | Fault::Unbind | Fault::Column | Fault::Clock)
        {
            self.windows += fault.windows(is_alone);
        }
        match carried_out {
            Ok(()) => *self.faults.entry(fault.to_string()).or_default() += 1,
            Err(error) => {
                let failed = self.failed.entry(fault.to_string());
                let failed = failed.or_insert_with(|| Failed { times: 0, reason: String::new() });
                failed.times += 1;
                failed.reason = format!("{error:#}");
            }
        }
    }

    /// How many duplicates can be explained. Relays tell of lapses themselves, so of those no more count than there were
    /// faults; and whatever broke, whoever sends half of all messages again does more than to repeat what was in flight.
    fn bound(&self, lapses: u64, events: u64) -> u64 {
        let lapses = lapses.min(self.faults.values().sum());
        (self.windows * WINDOW + lapses * LANE_WINDOW).min(events / 2)
    }

    fn kills(&self) -> u64 {
        self.faults.get("kill").copied().unwrap_or_default()
    }
}

/// Breaks one thing after the other, or several at a time, until it is enough.
async fn break_things(
    stage: &Stage,
    schedule: Schedule,
    args: &VerifyArgs,
    interrupted: &CancellationToken,
    output: &Output,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let mut told = Instant::now();
    let (mut failed, mut unmet) = (BTreeMap::new(), 0);
    let (began, lasts) = (Instant::now(), Duration::from_secs_f64(args.minutes * 60.0));
    for Step { pause, breaks } in schedule {
        tokio::select! {
            () = interrupted.cancelled() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
        let is_enough = match args.kills {
            Some(kills) => tally.kills() >= kills,
            None => began.elapsed() >= lasts,
        };
        if is_enough {
            break;
        }
        stage.check()?;
        let is_alone = breaks.len() == 1;
        let carried_out = join_all(breaks.iter().map(|broken| stage.scene.carry_out(broken, is_alone))).await;
        for (broken, carried_out) in breaks.into_iter().zip(carried_out) {
            tally.note(&broken.fault, is_alone, &carried_out);
            if broken.fault == Fault::Kill {
                unmet = if carried_out.is_ok() { 0 } else { unmet + 1 };
            }
            if carried_out.is_err() {
                failed.insert(broken.fault.to_string(), broken);
            }
        }
        ensure!(unmet < UNMET, "no relay stays up: the last {UNMET} kills have met none");
        if let Some(words) = stage.tell(tally.kills(), tally.faults.values().sum())
            && told.elapsed() >= TELL
        {
            output.note(words);
            told = Instant::now();
        }
    }
    // What never could be done among others is done alone: a server may need a moment after what was before.
    for (name, broken) in failed {
        for _ in 0..ALONE {
            if tally.faults.contains_key(&name) || interrupted.is_cancelled() {
                break;
            }
            let carried_out = stage.scene.carry_out(&broken, true).await;
            tally.note(&broken.fault, true, &carried_out);
        }
    }
    Ok(())
}

/// The first signal ends the breaking; what is left is carried and counted. The second leaves at once, and the relays
/// go with us.
fn listen() -> anyhow::Result<CancellationToken> {
    let interrupted = CancellationToken::new();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let token = interrupted.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if token.is_cancelled() {
                std::process::exit(Exit::Interrupted as i32);
            }
            token.cancel();
        }
    });
    Ok(interrupted)
}

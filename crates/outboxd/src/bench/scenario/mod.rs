//! The scenarios, one file each.

mod backlog;
mod blocked;
mod by_hand;
mod confirms;
mod consumer;
mod drain;
mod enqueue;
mod gate;
mod history;
mod idle;
mod mapped;
mod steady;

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::Bench;
use super::database::{Database, Log};
use super::load::Load;
use super::measure::{Role, Run, Watch};
use super::relay::Relay;
use super::way::Way;
use crate::cli::args::Scenario;

/// How long a broker may take to tell what it has confirmed.
const COUNTED: Duration = Duration::from_secs(20);

/// Why a scenario cannot be measured here.
pub(super) fn reason_against(scenario: Scenario, database: &Database, way: &Way) -> Option<&'static str> {
    match (scenario, database, way) {
        (Scenario::Mapped, Database::Sqlite(_), _) => Some("a mapped table is in PostgreSQL"),
        (Scenario::Mapped, _, Way::File) => Some("there is no broker among the connections"),
        (Scenario::Blocked, _, Way::Rabbit(rabbit)) if rabbit.is_tls() => {
            Some("nobody can stand between a client and its TLS")
        }
        #[cfg(feature = "kafka")]
        (Scenario::Blocked, _, Way::Kafka(kafka)) if kafka.proxy().is_none() => {
            Some("its clients go to the address that it announces; put a proxy there with --kafka-proxy")
        }
        _ => None,
    }
}

/// Whether it is measured in several rounds, because it is over soon.
pub(super) fn is_repeated(scenario: Scenario) -> bool {
    matches!(scenario, Scenario::Drain | Scenario::Consumer | Scenario::Enqueue | Scenario::Mapped)
}

/// One round.
pub(super) async fn measure(scenario: Scenario, bench: &Bench<'_>) -> anyhow::Result<Vec<Run>> {
    match scenario {
        Scenario::Drain => drain::drain(bench).await,
        Scenario::Steady => steady::steady(bench).await,
        Scenario::Consumer => consumer::consumer(bench).await,
        Scenario::Enqueue => enqueue::enqueue(bench).await,
        Scenario::Idle => idle::idle(bench).await,
        Scenario::Mapped => mapped::mapped(bench).await,
        Scenario::Backlog => backlog::backlog(bench).await,
        Scenario::History => history::history(bench).await,
        Scenario::Blocked => blocked::blocked(bench).await,
    }
}

/// Lets a relay carry what waits in a log, and looks whether it arrived.
async fn carry(bench: &Bench<'_>, log: &Log, load: Load, what: &str) -> anyhow::Result<Run> {
    let run = carry_some(bench, log, load, what).await?;
    arrived(bench, load.messages).await?;
    Ok(run)
}

/// The same, where more may wait: it ends when so many are settled.
async fn carry_some(bench: &Bench<'_>, log: &Log, load: Load, what: &str) -> anyhow::Result<Run> {
    bench.way.fresh(bench.folder()).await?;
    let before = log.delivered().await?;
    let mut relay = Relay::start(bench, &bench.way.aim(log.job(), false)).await?;
    let watch = Watch::relay(bench, &relay).await;
    let delivered = async || Ok(log.delivered().await? - before);
    let pace = relay.until(load.messages, delivered).await?;
    let run = watch.run(what, Role::Ours, pace);
    relay.stop().await?;
    Ok(watch.booked(run).await)
}

/// Looks whether all have arrived. Nothing was disturbed, so none came twice.
async fn arrived(bench: &Bench<'_>, expected: u64) -> anyhow::Result<()> {
    let (begun, counter) = (Instant::now(), bench.way.counter(bench.folder()).await?);
    loop {
        let count = counter.count().await?;
        if count == expected {
            return Ok(());
        }
        // A broker counts a little later than it confirms.
        let way = bench.way.name();
        ensure!(begun.elapsed() < COUNTED, "{count} messages arrived at {way} instead of {expected}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

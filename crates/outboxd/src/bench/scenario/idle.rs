//! A pipe with nothing to do.

use std::time::Duration;

use super::super::Bench;
use super::super::database::Act;
use super::super::measure::{Pace, Role, Run, Watch};
use super::super::relay::Relay;

/// After so long a pipe has found its longest pause.
const CALM: Duration = Duration::from_secs(3);

pub(super) async fn idle(bench: &Bench<'_>) -> anyhow::Result<Vec<Run>> {
    bench.way.fresh(bench.folder()).await?;
    let log = bench.ground.database.fresh().await?;
    let mut relay = Relay::start(bench, &bench.way.aim(log.job(), false)).await?;
    log.writer().await?.write(Act::Event, bench.load, 0).await?;
    relay.until(1, async || log.delivered().await).await?;
    tokio::time::sleep(CALM).await;
    let watch = Watch::relay(bench, &relay).await;
    tokio::time::sleep(Duration::from_secs(bench.args.seconds)).await;
    relay.check()?;
    let run = watch.run("outboxd", Role::Ours, Pace { carried: 0, messages: 0, took: watch.elapsed() });
    relay.stop().await?;
    Ok(vec![run])
}

//! A log that has held very many, all carried and removed, against a new one.

use super::super::Bench;
use super::super::database::Log;
use super::super::measure::{Role, Run};
use super::super::relay::Relay;
use super::carry;

/// So many are in the log at a time.
const STEP: u64 = 1_000_000;

pub(super) async fn history(bench: &Bench<'_>) -> anyhow::Result<Vec<Run>> {
    let log = bench.ground.database.fresh().await?;
    log.fill(bench.load, 0).await?;
    let mut new = carry(bench, &log, bench.load, "a new log").await?;
    new.role = Role::Limit;
    let log = bench.ground.database.fresh().await?;
    live(bench, &log).await?;
    log.fill(bench.load, bench.args.history).await?;
    let what = format!("a log that has held {}", bench.args.history);
    Ok(vec![new, carry(bench, &log, bench.load, &what).await?])
}

/// Writes, carries and removes, by the cursor that is measured later; to a sink that only counts.
async fn live(bench: &Bench<'_>, log: &Log) -> anyhow::Result<()> {
    let mut job = log.job();
    job.sink = "metrics = [{ counter = \"bench_total\" }]".to_owned();
    // A handler gets a hundred at a time unless somebody says so; this one is not what is measured.
    if !bench.args.pipe.iter().any(|line| line.trim_start().starts_with("batch")) {
        job.pipe.push_str("\nbatch = 2000");
    }
    let mut relay = Relay::start(bench, &job).await?;
    let mut next = 0;
    while next < bench.args.history {
        let step = STEP.min(bench.args.history - next);
        log.fill(bench.load.of(step), next).await?;
        next += step;
        relay.until(next, async || log.delivered().await).await?;
        log.purge().await?;
        bench.tell(format_args!("{next} of {} were written, carried and removed", bench.args.history));
    }
    relay.stop().await
}

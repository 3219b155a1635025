//! A handler with an inbox: a statement for every message, in one transaction with its id. From the log where there is no
//! broker, else from its queue or topic.

use anyhow::ensure;

use super::super::Bench;
use super::super::database::{BATCH, message};
use super::super::measure::{Role, Run, Watch};
use super::super::relay::Relay;
use super::super::way::Way;
use super::carry;

pub(super) async fn consumer(bench: &Bench<'_>) -> anyhow::Result<Vec<Run>> {
    let messages: Vec<_> = (0..bench.load.messages).map(|number| message(bench.load, number)).collect();
    let log = bench.ground.database.fresh().await?;
    let watch = Watch::here(bench).await;
    log.two_statements(&messages).await?;
    let what = format!("the bare two statements, {BATCH} a transaction");
    let mut runs = vec![watch.all(what, Role::Limit, bench.load.messages).await];
    drop(messages);
    if matches!(bench.way, Way::File) {
        runs.push(function(bench).await?);
    }
    runs.push(handler(bench).await?);
    Ok(runs)
}

/// A function in Rust, by the library alone.
async fn function(bench: &Bench<'_>) -> anyhow::Result<Run> {
    let log = bench.ground.database.fresh().await?;
    log.fill(bench.load, 0).await?;
    let watch = Watch::here(bench).await;
    log.function(bench.load.messages).await?;
    Ok(watch.all("a function in Rust", Role::Beside, bench.load.messages).await)
}

/// `outboxd run` with a sink `sql`.
async fn handler(bench: &Bench<'_>) -> anyhow::Result<Run> {
    let count = bench.load.messages;
    let log = bench.ground.database.fresh().await?;
    log.fill(bench.load, 0).await?;
    let mut job = log.job();
    if !matches!(bench.way, Way::File) {
        carry(bench, &log, bench.load, "to the broker").await?;
        job = bench.way.read(job);
    }
    job.sink = log.handler();
    let mut relay = Relay::start(bench, &job).await?;
    let watch = Watch::relay(bench, &relay).await;
    let pace = relay.until(count, async || log.effects().await).await?;
    let run = watch.run("outboxd, sql with an inbox", Role::Ours, pace);
    relay.stop().await?;
    let effects = log.all_effects().await?;
    ensure!(effects == count, "{effects} effects of {count} messages");
    Ok(watch.booked(run).await)
}

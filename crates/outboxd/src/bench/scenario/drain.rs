//! A backlog, carried as fast as it goes: beside the raw client with the same guarantees, and the loop that people write.

use super::super::Bench;
use super::super::database::Log;
use super::super::measure::{Role, Run, Watch};
use super::super::way::Way;
use super::{arrived, by_hand, carry};

/// Events in a transaction when the cost of an INSERT is measured without that of its commit.
const TOGETHER: u64 = 100;

/// The most that are written one by one.
const WRITTEN: u64 = 20_000;

pub(super) async fn drain(bench: &Bench<'_>) -> anyhow::Result<Vec<Run>> {
    let mut runs = vec![raw(bench, true).await?];
    if !matches!(bench.way, Way::File) {
        runs.push(raw(bench, false).await?);
    }
    let log = bench.ground.database.fresh().await?;
    runs.push(insert(bench, &log).await?);
    runs.extend(by_hand::by_hand(bench).await?);
    let log = bench.ground.database.fresh().await?;
    log.fill(bench.load, 0).await?;
    runs.push(carry(bench, &log, bench.load, "outboxd").await?);
    Ok(runs)
}

/// The same messages from memory.
async fn raw(bench: &Bench<'_>, headers: bool) -> anyhow::Result<Run> {
    bench.way.fresh(bench.folder()).await?;
    let watch = Watch::here(bench).await;
    let pace = bench.way.raw(bench.load, bench.folder(), headers).await?;
    let (role, more) = if headers { (Role::Limit, "") } else { (Role::Beside, ", without headers") };
    let what = format!("{}{more}", bench.way.raw_name());
    let run = watch.at(what, role, pace).await;
    arrived(bench, bench.load.messages).await?;
    Ok(run)
}

/// What the database works for the INSERT of a message.
async fn insert(bench: &Bench<'_>, log: &Log) -> anyhow::Result<Run> {
    let count = bench.load.messages.min(WRITTEN);
    let mut writer = log.writer().await?;
    let watch = Watch::here(bench).await;
    let mut next = 0;
    while next < count {
        let until = count.min(next + TOGETHER);
        writer.write_many(bench.load, next..until).await?;
        next = until;
    }
    drop(writer);
    Ok(watch.all(format!("INSERT, {TOGETHER} a transaction"), Role::Writing, count).await)
}

//! What an event adds to a transaction of the application: beside a plain INSERT of the same.

use std::time::Instant;

use super::super::Bench;
use super::super::database::Act;
use super::super::measure::{Latency, Role, Run, Watch};

/// Each is a transaction, and so a sync of the disk: a part of the messages is enough.
const PART: u64 = 20;

pub(super) async fn enqueue(bench: &Bench<'_>) -> anyhow::Result<Vec<Run>> {
    let count = (bench.load.messages / PART).max(1);
    let mut runs = Vec::new();
    for (act, what, role) in [
        (Act::Order, "a transaction with its own INSERT", Role::Beside),
        (Act::OrderAndRow, "and a plain INSERT of the same", Role::Limit),
        (Act::OrderAndEvent, "and an event", Role::Ours),
    ] {
        let log = bench.ground.database.fresh().await?;
        let mut writer = log.writer().await?;
        // The first prepares its statements.
        writer.write(act, bench.load, count).await?;
        let watch = Watch::here(bench).await;
        let mut took = Vec::new();
        for number in 0..count {
            let begun = Instant::now();
            writer.write(act, bench.load, number).await?;
            took.push(begun.elapsed());
        }
        drop(writer);
        let mut run = watch.all(what, role, count).await;
        run.latency_ms = Latency::of(took);
        runs.push(run);
    }
    Ok(runs)
}

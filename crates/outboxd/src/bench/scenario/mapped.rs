//! A table that was there before, with all that outboxd does by default: beside the loop that reads it by hand.

use anyhow::{Context as _, ensure};
use sqlx::Row;

use super::super::Bench;
use super::super::measure::{Role, Run, Watch};
use super::super::relay::Relay;
use super::super::way::Way;
use super::{arrived, by_hand};

pub(super) async fn mapped(bench: &Bench<'_>) -> anyhow::Result<Vec<Run>> {
    let mut runs: Vec<Run> = by_hand::by_hand(bench).await?.into_iter().collect();
    let log = bench.ground.database.fresh().await?;
    let pool = log.pool().context("a mapped table is in PostgreSQL")?;
    let preset = by_hand::fill(bench.way, pool, bench.load).await?.context("there is no broker")?;
    bench.way.fresh(bench.folder()).await?;
    let mut job = bench.way.aim(log.job(), false);
    job.source = format!("on = \"database\"\npreset = \"{preset}\"\nschema = \"outboxd_bench\"");
    let counter = bench.way.counter(bench.folder()).await?;
    let mut relay = Relay::start(bench, &job).await?;
    let watch = Watch::relay(bench, &relay).await;
    // The table cannot be asked cheaply how far it is; the broker can.
    let pace = relay.until(bench.load.messages, async || counter.count().await).await?;
    let run = watch.run(format!("outboxd, preset {preset}"), Role::Ours, pace);
    relay.stop().await?;
    runs.push(watch.booked(run).await);
    arrived(bench, bench.load.messages).await?;
    let pending = match bench.way {
        Way::Rabbit(_) => {
            r#"select count(*) from outboxd_bench."OutboxMessages" where "DispatchedAt" is null"#
        }
        _ => r#"select count(*) from outboxd_bench."Outbox" where "status" <> 'PROCESSED'"#,
    };
    let pending: i64 = sqlx::query(pending).fetch_one(pool).await?.get(0);
    ensure!(pending == 0, "{pending} rows have no mark, though all messages arrived");
    Ok(runs)
}

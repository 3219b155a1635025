//! Very many waiting, against few: the first of them should go as fast.

use super::super::Bench;
use super::super::measure::{Role, Run};
use super::{carry, carry_some};

pub(super) async fn backlog(bench: &Bench<'_>) -> anyhow::Result<Vec<Run>> {
    let (few, many) = (bench.load.messages, bench.args.backlog.max(bench.load.messages));
    let log = bench.ground.database.fresh().await?;
    log.fill(bench.load, 0).await?;
    let mut with_few = carry(bench, &log, bench.load, &format!("{few} waiting")).await?;
    with_few.role = Role::Limit;
    let log = bench.ground.database.fresh().await?;
    bench.tell(format_args!("writing {many} messages, of which {few} will be carried"));
    log.fill(bench.load.of(many), 0).await?;
    let with_many = carry_some(bench, &log, bench.load, &format!("{many} waiting")).await?;
    Ok(vec![with_few, with_many])
}

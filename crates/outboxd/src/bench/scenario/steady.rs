//! A steady load of transactions with one event each, and how long a message takes from its commit to its arrival.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::task::JoinSet;

use super::super::Bench;
use super::super::database::{Act, Writer};
use super::super::load::Load;
use super::super::measure::{Latency, Pace, Role, Run, Watch};
use super::super::pacing::Pacing;
use super::super::relay::Relay;
use super::super::way::Arrivals;
use super::confirms::Confirms;

/// Sessions of the application.
const WRITERS: usize = 8;

/// How long nothing may arrive before it is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// When each message was committed, in nanoseconds after the start; zero if it is not.
type Commits = Arc<Vec<AtomicU64>>;

pub(super) async fn steady(bench: &Bench<'_>) -> anyhow::Result<Vec<Run>> {
    let count = bench.args.rate * bench.args.seconds;
    let alone = raw(bench, count).await?;
    bench.way.fresh(bench.folder()).await?;
    let log = bench.ground.database.fresh().await?;
    let mut job = bench.way.aim(log.job(), true);
    let confirms = Confirms::of(&mut job)?;
    let mut relay = Relay::start(bench, &job).await?;
    let mut arrivals = bench.way.listen(&mut relay).await?;
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        writers.push(log.writer().await?);
    }
    // Of a number that is not counted: everybody has connected when it is there.
    writers[0].write(Act::Event, bench.load, count).await?;
    next(&mut arrivals).await.context("the first message did not arrive")?;

    let watch = Watch::relay(bench, &relay).await;
    let start = Instant::now();
    let commits: Commits = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
    let mut writing = JoinSet::new();
    let pacing = Pacing::new(start, bench.args.rate);
    for writer in writers {
        writing.spawn(write(writer, bench.load, commits.clone(), pacing.clone()));
    }
    let arrived = collect(&mut arrivals, count).await;
    let took = start.elapsed();
    while let Some(written) = writing.join_next().await {
        written??;
    }
    let arrived = arrived?;
    let mut run = watch.run("outboxd", Role::Ours, Pace { carried: count, messages: count, took });
    run.latency_ms = Latency::of(latencies(start, &commits, &arrived));
    run.confirm_ms = confirms.latency().await?;
    relay.stop().await?;
    let ours = watch.booked(run).await;
    Ok(alone.into_iter().chain([ours]).collect())
}

/// What the broker takes for the same messages when its own client has them in memory.
async fn raw(bench: &Bench<'_>, count: u64) -> anyhow::Result<Option<Run>> {
    bench.way.fresh(bench.folder()).await?;
    let (watch, begun) = (Watch::here(bench).await, Instant::now());
    let pacing = Pacing::new(begun, bench.args.rate);
    let Some(took) = bench.way.paced(bench.load.of(count), &pacing).await? else { return Ok(None) };
    let pace = Pace { carried: count, messages: count, took: begun.elapsed() };
    let what = format!("{}, one by one", bench.way.raw_name());
    let mut run = watch.run(what, Role::Beside, pace);
    run.latency_ms = Latency::of(took);
    Ok(Some(watch.booked(run).await))
}

async fn write(mut writer: Writer, load: Load, commits: Commits, pace: Pacing) -> anyhow::Result<()> {
    while let Some(number) = pace.next(commits.len() as u64).await {
        writer.write(Act::Event, load, number).await?;
        let at = u64::try_from(pace.start().elapsed().as_nanos())?;
        commits[usize::try_from(number)?].store(at, Ordering::Relaxed);
    }
    Ok(())
}

async fn next(arrivals: &mut Arrivals) -> anyhow::Result<(u64, Instant)> {
    let next = tokio::time::timeout(PATIENCE, arrivals.recv()).await;
    next.ok().flatten().with_context(|| format!("nothing has arrived for {PATIENCE:?}"))
}

/// When each of so many arrived first.
async fn collect(arrivals: &mut Arrivals, count: u64) -> anyhow::Result<Vec<Option<Instant>>> {
    let mut all: Vec<Option<Instant>> = vec![None; usize::try_from(count)?];
    let mut missing = all.len();
    while missing > 0 {
        let (number, at) =
            next(arrivals).await.with_context(|| format!("{missing} of {count} are missing"))?;
        if let Some(slot @ None) = all.get_mut(usize::try_from(number)?) {
            *slot = Some(at);
            missing -= 1;
        }
    }
    Ok(all)
}

/// A relay may be faster than the answer to the COMMIT: that is no time at all.
fn latencies(start: Instant, commits: &Commits, arrived: &[Option<Instant>]) -> Vec<Duration> {
    let committed = commits.iter().map(|at| start + Duration::from_nanos(at.load(Ordering::Relaxed)));
    let each = committed
        .zip(arrived)
        .filter_map(|(at, arrived)| Some(arrived.as_ref()?.saturating_duration_since(at)));
    each.collect()
}

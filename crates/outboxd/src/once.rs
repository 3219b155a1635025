//! `run --once`: tells when there is nothing left to carry now.

use std::sync::Arc;
use std::time::Duration;

use outbox::Stats;
use outbox::admin::CursorStatus;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::backends::Opened;
use crate::plan::{PipePlan, SourcePlan};
use crate::trouble::{Exit, Trouble};

/// How often to look.
const LOOK: Duration = Duration::from_millis(20);

/// One lane of a pipe that runs.
#[derive(Clone)]
pub struct Lane {
    /// The pipe.
    pub pipe: PipePlan,
    /// Which of its lanes.
    pub lane: u32,
    /// What it has done so far.
    pub stats: Arc<Stats>,
    /// It has ended, however it did.
    pub ended: CancellationToken,
}

/// Ends when every pipe of a source has found nothing more, or its sink cannot be reached.
///
/// A pipe that claims nothing during two of its own polls, with nothing in flight, has nothing that is due;
/// unless its source does not answer or another relay owns the cursor. So the source is asked at the end. A broker can
/// only be asked whether it is there; what waits in its retry queues is left for later.
/// A pipe whose sink is out of reach is not waited for, and does not keep the others from finishing; nor does
/// one that has ended, which was told when it did.
pub async fn until_idle(
    source: &SourcePlan,
    opened: &Opened,
    lanes: &[Lane],
    stop: &CancellationToken,
) -> Exit {
    let polls = lanes.iter().map(|lane| lane.pipe.options.poll * 2).max().unwrap_or_default() + LOOK * 5;
    let patience = opened.quiet().map_or(polls, |quiet| polls.max(quiet));
    let mut claimed = 0;
    let mut quiet_since = Instant::now();
    loop {
        tokio::select! {
            () = stop.cancelled() => return Exit::Ok,
            () = sleep(LOOK) => {}
        }
        let (ended, running): (Vec<_>, Vec<_>) = lanes.iter().partition(|lane| lane.ended.is_cancelled());
        let (shut, open): (Vec<_>, Vec<_>) =
            running.into_iter().partition(|lane| lane.stats.open_cause().is_some());
        let now_claimed = open.iter().map(|lane| lane.stats.claimed() + lane.stats.skipped()).sum();
        if now_claimed != claimed || open.iter().any(|lane| lane.stats.in_flight() > 0) {
            claimed = now_claimed;
            quiet_since = Instant::now();
        }
        // With every sink out of reach there is nothing to be patient for.
        if quiet_since.elapsed() < patience && !open.is_empty() {
            continue;
        }
        match is_pending(opened, &open, &ended).await {
            Ok(false) => return leave(&shut),
            // Somebody else is at it, or more has come: look again.
            Ok(true) => quiet_since = Instant::now(),
            Err(error) => {
                let trouble = Trouble::at_source("cannot tell whether all is done", source, &error);
                tracing::error!(source = source.name, "{trouble}; {}", trouble.help());
                return trouble.exit;
            }
        }
    }
}

async fn is_pending(opened: &Opened, open: &[&Lane], ended: &[&Lane]) -> outbox::Result<bool> {
    let is_of = |lane: &Lane, cursor: &CursorStatus| lane.pipe.name == cursor.cursor;
    let is_meant = |cursor: &CursorStatus| {
        // By name and not by number: somebody else may have split the log into more lanes than we have.
        open.iter().any(|lane| is_of(lane, cursor))
            && !ended.iter().any(|lane| is_of(lane, cursor) && lane.lane == cursor.lane)
    };
    let Some(log) = opened.log() else { return opened.check().await.map(|()| false) };
    let cursors = log.admin().status().await?;
    Ok(cursors.iter().any(|cursor| is_meant(cursor) && cursor.pending > 0))
}

fn leave(shut: &[&Lane]) -> Exit {
    for Lane { pipe, stats, .. } in shut {
        let cause = stats.open_cause().map(|cause| cause.to_string()).unwrap_or_default();
        tracing::error!(pipe = pipe.name, sink = pipe.to, cause, "left for later: the sink is unavailable");
    }
    if shut.is_empty() { Exit::Ok } else { Exit::Sink }
}

//! `run --once`: tells when there is nothing left to carry now.

use std::sync::Arc;
use std::time::Duration;

use outbox::Stats;
use tokio_util::sync::CancellationToken;

use crate::backends::Log;
use crate::plan::{PipePlan, SourcePlan};
use crate::trouble::{Exit, Trouble};

/// How often to look.
const LOOK: Duration = Duration::from_millis(20);

/// Ends when every pipe has found nothing more, or when one cannot go on.
///
/// A pipe that claims nothing during two of its own polls, with nothing in flight, has nothing that is due;
/// unless its source does not answer or another relay owns the cursor. So the source is asked at the end.
pub async fn until_idle(
    source: &SourcePlan,
    log: &Log,
    stats: &[(PipePlan, Arc<Stats>)],
    stop: &CancellationToken,
) -> Exit {
    let patience = stats.iter().map(|(pipe, _)| pipe.options.poll * 2).max().unwrap_or_default() + LOOK * 5;
    let mut claimed = 0;
    let mut quiet_since = tokio::time::Instant::now();
    loop {
        tokio::select! {
            () = stop.cancelled() => return Exit::Ok,
            () = tokio::time::sleep(LOOK) => {}
        }
        if let Some((pipe, cause)) = stats.iter().find_map(|(pipe, stats)| Some((pipe, stats.open_cause()?)))
        {
            tracing::error!(pipe = pipe.name, sink = pipe.to, %cause, "the sink is unavailable; left for later");
            return Exit::Sink;
        }
        let now_claimed = stats.iter().map(|(_, stats)| stats.claimed()).sum();
        let in_flight = stats.iter().any(|(_, stats)| is_busy(stats));
        if now_claimed != claimed || in_flight {
            claimed = now_claimed;
            quiet_since = tokio::time::Instant::now();
        }
        if quiet_since.elapsed() < patience {
            continue;
        }
        match log.admin().status().await {
            Ok(cursors) => {
                let ours = |name: &str| stats.iter().any(|(pipe, _)| pipe.name == name);
                if !cursors.iter().any(|cursor| ours(&cursor.cursor) && cursor.pending > 0) {
                    return Exit::Ok;
                }
                // Somebody else is at it, or more has come: look again.
                quiet_since = tokio::time::Instant::now();
            }
            Err(error) => {
                let trouble = Trouble::at_source("cannot tell whether all is done", source, &error);
                tracing::error!(source = source.name, "{trouble}; {}", trouble.help());
                return trouble.exit;
            }
        }
    }
}

fn is_busy(stats: &Stats) -> bool {
    let settled = stats.delivered() + stats.retried() + stats.dead() + stats.behind() + stats.released();
    settled < stats.claimed()
}

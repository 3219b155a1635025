//! What happens, as it happens: a line a second, and a line for what a person should know.

use std::sync::Arc;
use std::time::Duration;

use outbox::admin::{Admin, Filter, Stand};
use outbox::sqlite::Outbox;
use tokio_util::sync::CancellationToken;

use super::PIPES;
use super::counted::Count;
use super::shop::Ledger;

/// Tells every second how far everybody is, until the pipes stop.
pub(super) async fn watch(
    outbox: Outbox,
    ledger: Arc<Ledger>,
    stats: Vec<Arc<Count>>,
    stop: CancellationToken,
) {
    let mut before = vec![0; 1 + stats.len()];
    let mut dead_told = 0;
    let mut second = 0;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
        second += 1;
        let now: Vec<u64> =
            std::iter::once(ledger.written()).chain(stats.iter().map(|stats| stats.delivered())).collect();
        let mut line = format!("{second:>3} s  written {:>6} (+{}/s)", now[0], now[0] - before[0]);
        line += &format!(", rolled back {}", ledger.rolled_back());
        for (index, name) in PIPES.iter().enumerate() {
            line += &format!("  |  {name} {} (+{}/s)", now[index + 1], now[index + 1] - before[index + 1]);
            if stats[index].retried() > 0 {
                line += &format!(", retried {}", stats[index].retried());
            }
        }
        let lag = outbox.status().await.unwrap_or_default();
        let lag = lag
            .iter()
            .filter(|cursor| cursor.dead == 0)
            .filter_map(|cursor| cursor.lag_seconds)
            .fold(0.0, f64::max);
        eprintln!("{line}  |  lag {:.0} ms", lag * 1000.0);
        dead_told = tell_dead(&outbox, dead_told).await;
        before = now;
    }
}

/// A dead letter is what a person must know of.
async fn tell_dead(outbox: &Outbox, told: usize) -> usize {
    let dead = Filter { stand: Some(Stand::Dead), ..Filter::default() };
    let dead = outbox.list(&dead).await.unwrap_or_default();
    for entry in dead.iter().skip(told) {
        let (pipe, cause) = (entry.cursor.as_deref().unwrap_or("?"), entry.cause.as_ref());
        let cause = cause.map(ToString::to_string).unwrap_or_default();
        eprintln!("       {pipe}: {} {} is dead: {cause}; its key waits for a person", entry.kind, entry.id);
    }
    dead.len().max(told)
}

//! Faults of the network between the relays and a server.

use std::time::Duration;

use anyhow::{anyhow, ensure};
use faults::Proxy;
use tokio::time::Instant;

use super::Scene;
use crate::verify::fault::Side;

/// What a thin line takes per second.
const THIN: u64 = 30_000;

/// Where in a stream a connection is cut at the latest.
const FURTHEST: u64 = 20_000;

/// How long relays may have nothing to say to a server, after whatever was broken before.
const QUIET: Duration = Duration::from_secs(5);

const LOOK: Duration = Duration::from_millis(50);

fn proxy(scene: &Scene, side: Side) -> anyhow::Result<&Proxy> {
    scene.network.side(side).map_err(|why| anyhow!("there is no proxy: {why}"))
}

/// Every connection is reset, those that wait to be accepted as well.
pub(super) fn cut(scene: &Scene, side: Side) -> anyhow::Result<()> {
    proxy(scene, side)?.cut();
    Ok(())
}

/// Connections stay open, and nothing comes through.
pub(super) async fn freeze(scene: &Scene, side: Side, lasts: Duration) -> anyhow::Result<()> {
    let proxy = proxy(scene, side)?;
    proxy.block();
    tokio::time::sleep(lasts).await;
    proxy.unblock();
    Ok(())
}

/// Bytes come late, or few at a time.
pub(super) async fn slow(scene: &Scene, side: Side, choice: u64, lasts: Duration) -> anyhow::Result<()> {
    let proxy = proxy(scene, side)?;
    if choice.is_multiple_of(2) {
        proxy.throttle(THIN);
    } else {
        proxy.latency(Duration::from_millis(100 + choice % 200));
    }
    tokio::time::sleep(lasts).await;
    proxy.unthrottle();
    proxy.latency(Duration::ZERO);
    Ok(())
}

/// A connection is cut in the midst of a request, which the server may or may not have understood.
pub(super) async fn cut_after(scene: &Scene, side: Side, choice: u64, lasts: Duration) -> anyhow::Result<()> {
    let proxy = proxy(scene, side)?;
    proxy.cut_after(1 + choice % FURTHEST);
    tokio::time::sleep(lasts).await;
    let end = Instant::now() + QUIET;
    while proxy.is_about_to_cut() && Instant::now() < end {
        tokio::time::sleep(LOOK).await;
    }
    // It is not to come later, when nobody counts on it.
    ensure!(!proxy.spare(), "too few bytes went through");
    Ok(())
}

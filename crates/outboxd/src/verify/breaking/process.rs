//! Faults of processes.

use std::fs::OpenOptions;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::process::Command;

use super::Scene;
use crate::verify::log::Log;

/// Why a fault has met nobody.
const NOBODY: &str = "the relay had ended already, or was not up yet";

/// SIGKILL, and another takes its place.
pub(super) async fn kill(scene: &Scene, choice: u64) -> anyhow::Result<()> {
    let mut slot = scene.relays.usual(choice).await;
    let lived = scene.relays.kill(&mut slot).await;
    scene.relays.start(&mut slot)?;
    ensure!(lived, NOBODY);
    Ok(())
}

/// SIGSTOP, until its lease is long over; then it goes on as if nothing had been.
///
/// Not within a transaction of SQLite: as with any other writer of the file, nobody could write until it goes on, and no
/// lease changes that.
pub(super) async fn stop(scene: &Scene, choice: u64, lasts: Duration) -> anyhow::Result<()> {
    let mut slot = scene.relays.usual(choice).await;
    if !scene.relays.is_alive(&mut slot) {
        scene.relays.start(&mut slot)?;
        bail!(NOBODY);
    }
    let lock = match &scene.log {
        Log::Sqlite(outbox) => Some(outbox.pool().begin_with("BEGIN IMMEDIATE").await?),
        Log::Postgres(_) => None,
    };
    slot.halt();
    drop(lock);
    tokio::time::sleep(lasts).await;
    slot.go_on();
    Ok(())
}

/// SIGTERM under load: it drains and ends well, unless something else keeps it from that.
pub(super) async fn term(scene: &Scene, choice: u64, is_alone: bool) -> anyhow::Result<()> {
    let mut slot = scene.relays.usual(choice).await;
    let lived = scene.relays.term(&mut slot, is_alone).await;
    scene.relays.start(&mut slot)?;
    ensure!(lived, NOBODY);
    Ok(())
}

/// Many relays for a while; half of those that came are stopped, the others are killed.
pub(super) async fn many(scene: &Scene, lasts: Duration) -> anyhow::Result<()> {
    let mut slots = scene.relays.extra().await;
    for slot in &mut slots {
        scene.relays.start(slot)?;
    }
    tokio::time::sleep(lasts).await;
    let ends = slots.iter_mut().enumerate().map(|(index, slot)| async move {
        match index % 2 {
            0 => scene.relays.term(slot, false).await,
            _ => scene.relays.kill(slot).await,
        }
    });
    let lived = futures_util::future::join_all(ends).await;
    ensure!(lived.iter().all(|lived| *lived), "some of the relays had ended before they were told to");
    Ok(())
}

/// One more relay for a while, whose clock is an hour ahead or behind.
pub(super) async fn clock(scene: &Scene, choice: u64, lasts: Duration) -> anyhow::Result<()> {
    let library = scene.clock.as_deref().context("there is no libfaketime")?;
    let mut slots = scene.relays.extra().await;
    let slot = slots.first_mut().context("there is no place for one more relay")?;
    let shift = if choice.is_multiple_of(2) { "+1h" } else { "-1h" };
    slot.set("FAKETIME", shift);
    // The wall clock is wrong; that which only counts is not.
    slot.set("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    slot.set("LD_PRELOAD", library);
    scene.relays.start(slot)?;
    tokio::time::sleep(lasts).await;
    ensure!(scene.relays.kill(slot).await, NOBODY);
    Ok(())
}

/// What somebody else breaks, and mends.
pub(super) async fn hook(scene: &Scene, number: usize) -> anyhow::Result<()> {
    let (name, command) = scene.hooks.get(number).context("there is no such hook")?;
    let log = OpenOptions::new().create(true).append(true).open(scene.folder.join("hooks.log"))?;
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
    let status = shell.status().await.context("cannot run sh")?;
    ensure!(status.success(), "the hook '{name}' ended with {status}; see hooks.log");
    Ok(())
}

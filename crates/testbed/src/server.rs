//! What every server here has in common: a folder, a leash in it, and how the two start and end.

use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::leash::{Folder, Leash};
use crate::port;

/// A server that can be ended and started again in the same folder.
#[derive(Debug)]
pub(crate) struct Server {
    /// As its makers spell it.
    name: &'static str,
    /// `None` when it is down, and when another process owns it.
    leash: Mutex<Option<Leash>>,
    /// After the leash, since its removal waits for the server. `None` when another process owns it.
    folder: Option<Folder>,
}

impl Server {
    /// One that is down until it is started. Without a folder it is another process's.
    pub(crate) fn new(name: &'static str, folder: Option<Folder>) -> Self {
        Self { name, leash: Mutex::new(None), folder }
    }

    /// Runs the command, with its output in `<log>.log`, and waits until it is `ready`. `last` is the signal
    /// that ends it when we are gone.
    pub(crate) fn start(
        &self,
        log: &str,
        last: &str,
        command: &Command,
        limit: Duration,
        mut ready: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let name = self.name;
        let folder = self.folder.as_ref().with_context(|| format!("this {name} is not ours to start"))?;
        let mut slot = self.leash.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_some() {
            bail!("this {name} is running already");
        }
        let leash = folder.leash(log, last, command)?;
        port::until(&format!("{name} to start"), limit, || {
            leash.check()?;
            ready()
        })?;
        *slot = Some(leash);
        Ok(())
    }

    /// Sends the signal and waits until the server is gone.
    pub(crate) fn end(&self, signal: &str) -> Result<()> {
        let leash = self.leash.lock().unwrap_or_else(PoisonError::into_inner).take();
        leash.with_context(|| format!("this {} is not running, or not ours", self.name))?.end(signal)
    }
}

//! Free ports, and the wait until somebody answers on one.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

pub(crate) use faults::port::{address, free};

/// Whether somebody listens.
pub(crate) fn answers(port: u16) -> bool {
    TcpStream::connect_timeout(&address(port), Duration::from_secs(1)).is_ok()
}

/// Asks again and again until `ready` says so. The servers offer no event to wait for, only answers.
pub(crate) fn until(what: &str, limit: Duration, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    loop {
        if ready().with_context(|| format!("waiting for {what}"))? {
            return Ok(());
        }
        if start.elapsed() > limit {
            bail!("{what} took longer than {limit:?}");
        }
        thread::sleep(Duration::from_millis(50));
    }
}

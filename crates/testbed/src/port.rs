//! Free ports, and the wait until somebody answers on one.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use uuid::Uuid;

/// Below the range from which the kernel takes the ports of outgoing connections, so that nobody gets
/// a server's port while the server is down.
const FIRST: u16 = 15_000;
const COUNT: u16 = 17_000;

/// A port of 127.0.0.1 on which nobody listens.
pub(crate) fn free() -> Result<u16> {
    for _ in 0..100 {
        let [high, low, ..] = Uuid::new_v4().into_bytes();
        let port = FIRST + u16::from_be_bytes([high, low]) % COUNT;
        if TcpListener::bind(address(port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port from {FIRST} to {}", FIRST + COUNT - 1)
}

pub(crate) fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

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

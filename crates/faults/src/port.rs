//! Ports that stay ours while nobody listens on them.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Result, bail};
use uuid::Uuid;

/// Below the range from which the kernel takes the ports of outgoing connections, so that nobody gets
/// a server's port while the server is down.
const FIRST: u16 = 15_000;
const COUNT: u16 = 17_000;

/// A port of 127.0.0.1 on which nobody listens.
pub fn free() -> Result<u16> {
    for _ in 0..100 {
        let [high, low, ..] = Uuid::new_v4().into_bytes();
        let port = FIRST + u16::from_be_bytes([high, low]) % COUNT;
        if TcpListener::bind(address(port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port from {FIRST} to {}", FIRST + COUNT - 1)
}

/// The address of a port on 127.0.0.1.
pub fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

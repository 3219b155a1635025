//! Faults on command, for the tests and for `verify` and `bench` of outboxd: a TCP proxy between a program and its server.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! let proxy = faults::Proxy::to("127.0.0.1:5432").await?;
//! let url = proxy.reroute("postgres://app@127.0.0.1:5432/shop")?;
//! proxy.block();
//! # Ok(())
//! # }
//! ```

pub mod port;
mod proxy;

pub use proxy::Proxy;

//! The transactional outbox and inbox.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod admin;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
#[cfg_attr(not(feature = "failpoints"), allow(missing_docs))]
pub mod failpoint;
mod inbox;
mod lineup;
pub mod memory;
mod message;
mod migration;
mod pipe;
pub mod policy;
#[cfg(feature = "postgres")]
pub mod postgres;
mod sink;
mod source;
mod stats;

pub use error::{Error, ErrorKind, Result};
pub use inbox::{Failure, Handler, Inbox, Lent};
pub use message::{Headers, Limits, Message, MessageId, header};
pub use migration::Migration;
pub use pipe::Pipe;
pub use policy::{Policy, Verdict};
pub use sink::{Cause, Outcome, Rejection, Sink, code};
pub use source::{Claim, Lease, Source};
pub use stats::Stats;

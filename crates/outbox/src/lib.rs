//! The transactional outbox and inbox.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod admin;
mod error;
mod inbox;
mod message;
mod migration;
pub mod policy;
mod sink;
mod source;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use error::{Error, ErrorKind, Result};
pub use inbox::{Failure, Handler, Inbox, Lent};
pub use message::{Headers, Limits, Message, MessageId, header};
pub use migration::Migration;
pub use policy::{Policy, Verdict};
pub use sink::{Cause, Outcome, Rejection, Sink, code};
pub use source::{Claim, Lease, Source};

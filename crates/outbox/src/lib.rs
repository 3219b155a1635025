//! The transactional outbox and inbox.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod admin;
pub mod cloudevents;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
#[cfg_attr(not(feature = "failpoints"), allow(missing_docs))]
pub mod failpoint;
mod inbox;
pub mod lines;
mod lineup;
pub mod memory;
mod message;
mod migration;
mod pipe;
pub mod policy;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
mod setup;
mod sink;
mod source;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod stats;
pub mod template;

pub use error::{Error, ErrorKind, Result};
pub use inbox::{Failure, Handler, Inbox, Lent};
pub use message::{Headers, Limits, Message, MessageId, header};
pub use migration::Migration;
pub use policy::{Policy, Verdict};
pub use setup::Pipe;
pub use sink::{Cause, Outcome, Rejection, Sink, code};
pub use source::{Claim, Lease, Source};
pub use stats::Stats;
pub use template::Template;

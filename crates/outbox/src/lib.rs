//! The transactional outbox and inbox.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod admin;
pub mod cloudevents;
mod error;
mod inbox;
pub mod lines;
mod message;
pub mod policy;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
mod sink;
mod source;
pub mod template;

pub use error::{Error, ErrorKind, Result};
pub use inbox::{Failure, Handler, Inbox, Lent};
pub use message::{Headers, Limits, Message, MessageId, header};
pub use policy::{Policy, Verdict};
pub use sink::{Cause, Outcome, Rejection, Sink, code};
pub use source::{Claim, Lease, Source};
pub use template::Template;

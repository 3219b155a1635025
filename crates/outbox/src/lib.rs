//! The transactional outbox and inbox: from a database transaction to whoever must hear of it.
//!
//! An application writes a [`Message`] in the same transaction as its own data. A [`Pipe`] carries it to a
//! broker, a file or a function, at least once; an [`Inbox`] lets a function take effect once. Everything is
//! the same loop: claim messages from a [`Source`], deliver them to a [`Sink`], settle each with a [`Verdict`].
//!
//! ```
//! use outbox::memory::{Outbox, Recorder};
//! use outbox::{Message, Pipe};
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let outbox = Outbox::new();
//! outbox.enqueue(Message::json("order.placed", &[1, 2, 3])?.key("order-1"))?;
//!
//! // The memory backend keeps nothing; `sqlite` and `postgres` have the same names and enqueue in your transaction.
//! let sink = Recorder::new();
//! let stop = CancellationToken::new();
//! let pipe = tokio::spawn(Pipe::new(outbox.cursor("relay"), sink.clone()).run(stop.clone()));
//!
//! assert_eq!(sink.wait_for(1).await[0].kind, "order.placed");
//! stop.cancel(); // finishes what is in flight and gives the cursor back
//! pipe.await??;
//! # Ok(())
//! # }
//! ```
//!
//! `examples/shop.rs` is a whole program on SQLite, with a handler under an inbox.
//!
//! # What to read, in this order
//!
//! 1. [`Message`]: what travels, and the names of the [`header`]s that every part knows.
//! 2. [`Source`], [`Sink`], [`Inbox`] and [`Admin`](admin::Admin): the contracts, as numbered clauses.
//! 3. [`Pipe`]: the loop, its settings and how it stops. `pipe.rs` reads from top to bottom.
//! 4. [`Policy`]: order, attempts, delays, outages. [`policy`] holds the decisions as pure functions.
//! 5. [`memory`]: what the clauses mean, with nothing but a lock.
//! 6. `sqlite` and `postgres`: the log, its cursors under leases, the inbox. `rabbitmq`, [`kafka`] and [`lines`]: sinks.
//!    `http`, `smtp`, `meter` and `sql`: sinks that are handlers; [`Once`] puts an inbox in front of one.
//! 7. [`Publisher`]: sends at once, and keeps in a [`Store`] what cannot be sent now. `errors` and `audit`: what failed
//!    for good, and what people did about it.
//! 8. [`Error`]: one type; its kind decides what a pipe does and has advice for a person.
//! 9. `conformance`: the clauses as tests, for a backend of your own.
//!
//! # Features
//!
//! No backend is built unless it is asked for.
//!
//! | feature | gives |
//! | --- | --- |
//! | `sqlite` | the log, the inbox, the error log and their administration in a SQLite file |
//! | `postgres` | the same in PostgreSQL, and tables that exist already |
//! | `mysql` | the inbox, the error log, and tables that exist already, in MariaDB and MySQL |
//! | `rabbitmq` | the sink to an exchange, and a queue as a source |
//! | `kafka` | the sink to a topic, and topics read by a consumer group; it builds librdkafka, which needs make, a C++ compiler, OpenSSL and zlib |
//! | `http` | the handler that posts to an endpoint of an application in any language |
//! | `smtp` | the handler that sends e-mail |
//! | `metrics` | the figures of a pipe, and the handler that counts and measures |
//! | `conformance` | the suites that check a backend against the clauses |
//! | `failpoints` | named steps at which a test kills the process, see [`failpoint`] |
//!
//! Without any feature there are [`memory`], [`lines`], [`cloudevents`] and [`template`].
//!
//! The transaction that `enqueue` takes is one of `sqlx` 0.9, and the token that stops a pipe is that of
//! `tokio-util`: both are part of this crate's interface.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod admin;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub mod audit;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub mod beats;
pub mod broker;
pub mod cloudevents;
#[cfg(feature = "conformance")]
pub mod conformance;
mod cuts;
mod error;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub mod errors;
#[cfg_attr(not(feature = "failpoints"), allow(missing_docs))]
pub mod failpoint;
#[cfg(feature = "metrics")]
pub mod figures;
mod finding;
#[cfg(feature = "http")]
pub mod http;
mod inbox;
pub mod kafka;
pub mod letters;
pub mod lines;
mod lineup;
pub mod memory;
mod message;
#[cfg(feature = "metrics")]
pub mod meter;
mod migration;
#[cfg(feature = "mysql")]
pub mod mysql;
mod once;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub mod pauses;
mod pipe;
pub mod policy;
#[cfg(feature = "postgres")]
pub mod postgres;
mod publisher;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
mod ready;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub mod schema;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod server;
mod setup;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod sheet;
mod sink;
#[cfg(feature = "smtp")]
pub mod smtp;
mod source;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod stats;
mod store;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub mod table;
mod tell;
pub mod template;
#[cfg(any(feature = "http", feature = "smtp"))]
mod together;
mod view;
mod watch;

#[cfg(all(fuzzing, feature = "postgres"))]
#[doc(hidden)]
pub mod fuzz;

pub use error::{Error, ErrorKind, Result};
pub use finding::{Finding, Level};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub use inbox::InboxTable;
pub use inbox::{Attempt, Failed, Failure, Handled, Handler, Inbox, Lent};
pub use message::{Headers, Limits, Message, MessageId, header};
pub use migration::Migration;
pub use once::Once;
pub use policy::{Policy, Verdict};
pub use publisher::{Kept, Published, Publisher};
pub use ready::Group;
pub use setup::Pipe;
pub use sink::{Cause, Outcome, Rejection, Sink, code};
pub use source::{Claim, Lease, Source, Start};
pub use stats::Stats;
pub use store::Store;
pub use template::Template;
pub use view::{Path, View};
pub use watch::{Judged, Watch};

/// The Rust of the README, compiled so that it stays true.
#[cfg(all(doctest, feature = "rabbitmq", feature = "sqlite"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

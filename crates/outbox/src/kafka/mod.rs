//! Kafka: a topic as a sink, and topics read by a consumer group as a source.
//!
//! The sink: `sink.rs` says what an outcome is, `envelope.rs` writes a message as a record. What both write with:
//! `publisher.rs` decides what became of every record, `batch.rs` collects the reports of one call, `session.rs` keeps
//! the producer.
//!
//! The source: `source.rs` claims, `settle.rs` settles, `begin.rs` is for a group that begins now; `reader.rs` polls and follows the rebalances; `stock.rs` is what was read
//! ahead, partition by partition (`shelf.rs`), with the offsets that may be committed (`offsets.rs`); `moves.rs` decides
//! what goes to which retry or dead-letter topic; `topics.rs` makes those or looks for them; `record.rs` reads a record.
//!
//! The dead letters: `dead_topic.rs` shows and repairs them, `survey.rs` is what lies there, `scan.rs` reads a topic
//! through, `mark.rs` is what is written behind a letter that somebody has dealt with.
//!
//! `examine.rs` looks at topics for whoever wants to know whether all is well, `judge.rs` says what to think of them.
//!
//! `settings.rs` sets up the client, `error.rs` says what a code of it means.
//!
//! What a person writes down, [`Brokers`], [`TopicConfig`] and [`GroupConfig`], is there without the feature `kafka`, so
//! that a program that was built without can still check a configuration.

#[cfg(feature = "kafka")]
mod batch;
#[cfg(feature = "kafka")]
mod begin;
mod brokers;
#[cfg(feature = "kafka")]
mod catalog;
mod config;
#[cfg(feature = "kafka")]
mod dead_topic;
#[cfg(feature = "kafka")]
mod depths;
#[cfg(feature = "kafka")]
mod envelope;
#[cfg(feature = "kafka")]
mod error;
#[cfg(feature = "kafka")]
mod examine;
mod group_config;
#[cfg(feature = "kafka")]
mod judge;
#[cfg(feature = "kafka")]
mod mark;
#[cfg(feature = "kafka")]
mod moves;
#[cfg(feature = "kafka")]
mod offsets;
#[cfg(feature = "kafka")]
mod publisher;
#[cfg(feature = "kafka")]
mod reader;
#[cfg(feature = "kafka")]
mod record;
#[cfg(feature = "kafka")]
mod scan;
#[cfg(feature = "kafka")]
mod session;
#[cfg(feature = "kafka")]
mod settings;
#[cfg(feature = "kafka")]
mod settle;
#[cfg(feature = "kafka")]
mod shelf;
#[cfg(feature = "kafka")]
mod sink;
#[cfg(feature = "kafka")]
mod source;
#[cfg(feature = "kafka")]
mod stock;
#[cfg(feature = "kafka")]
mod survey;
#[cfg(feature = "kafka")]
mod thread;
#[cfg(feature = "kafka")]
mod token;
#[cfg(feature = "kafka")]
mod topics;

#[cfg(all(fuzzing, feature = "kafka"))]
#[doc(hidden)]
pub mod fuzz;

pub use brokers::{Brokers, Login, Mechanism};
pub use config::{Compression, TopicConfig, check_topic_name};
#[cfg(feature = "kafka")]
pub use dead_topic::DeadTopic;
pub use group_config::{GroupConfig, Topology};
#[cfg(feature = "kafka")]
pub use sink::Topic;
#[cfg(feature = "kafka")]
pub use source::Group;

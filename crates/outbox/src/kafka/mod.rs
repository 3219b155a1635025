//! Kafka: a topic as a sink.
//!
//! `sink.rs` decides what became of every message, `batch.rs` collects the reports of one call, `session.rs` keeps the
//! producer, `envelope.rs` writes a message as a record, `error.rs` says what a code of the client means.
//!
//! What a person writes down, [`Brokers`] and [`TopicConfig`], is there without the feature `kafka`, so that a program
//! that was built without can still check a configuration.

#[cfg(feature = "kafka")]
mod batch;
mod brokers;
mod config;
#[cfg(feature = "kafka")]
mod envelope;
#[cfg(feature = "kafka")]
mod error;
#[cfg(feature = "kafka")]
mod session;
#[cfg(feature = "kafka")]
mod sink;

pub use brokers::{Brokers, Login, Mechanism};
pub use config::{Compression, TopicConfig, check_topic_name};
#[cfg(feature = "kafka")]
pub use sink::Topic;

//! RabbitMQ: an exchange as a sink.
//!
//! `sink.rs` decides what became of every message, `publish.rs` sends and awaits, `confirm.rs` reads the
//! broker's answers, `connection.rs` keeps the connection, `topology.rs` makes or checks what must be there.
//!
//! The driver logs every returned message with its payload, and errors that the outcomes tell already: a program
//! that must keep payloads out of its log turns the target `lapin` off.

mod batch;
mod config;
mod confirm;
mod connection;
mod envelope;
mod error;
mod examine;
mod publish;
mod sink;
mod topology;

pub use config::{ExchangeConfig, ExchangeKind, QueueConfig, QueueKind, Topology};
pub use error::TOPOLOGY;
pub use examine::PROBE;
pub use sink::Exchange;

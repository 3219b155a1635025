//! RabbitMQ: an exchange as a sink, a queue as a source.
//!
//! `sink.rs` decides what became of every message, `publish.rs` sends and awaits, `confirm.rs` reads the
//! broker's answers, `connection.rs` keeps the connection, `topology.rs` makes or checks what must be there, with the
//! words of `declare.rs`.
//!
//! `source.rs` reads a queue, `settle.rs` writes down what became of its messages, `letter.rs` is a message as it comes
//! and goes on, `moves.rs` sends it to a retry queue or to the dead letters, `work_topology.rs` makes or checks these
//! queues. `dead_queue.rs` shows and repairs the dead letters, `reading.rs` goes through a queue without changing it.
//!
//! `examine.rs` looks whether all is well, by the questions of `ask.rs`; `keeping.rs` finds out what a queue drops.
//!
//! The driver logs every returned message with its payload, and errors that the outcomes tell already: a program
//! that must keep payloads out of its log turns the target `lapin` off.

mod ask;
mod batch;
mod config;
mod confirm;
mod connection;
mod dead_queue;
mod declare;
mod desk;
mod envelope;
mod error;
mod examine;
mod keeping;
mod letter;
mod moves;
mod publish;
mod reading;
mod settle;
mod sink;
mod source;
mod tide;
mod topology;
mod work_config;
mod work_topology;

#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz;

pub use config::{ExchangeConfig, ExchangeKind, QueueConfig, QueueKind, Topology};
pub use dead_queue::DeadQueue;
pub use error::TOPOLOGY;
pub use examine::PROBE;
pub use sink::Exchange;
pub use source::WorkQueue;
pub use work_config::{Argument, Binding, WorkQueueConfig};

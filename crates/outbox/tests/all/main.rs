//! Every integration test of the library, in one binary: one module per backend, and the loop itself.

#![allow(clippy::unwrap_used, reason = "a test that fails should say where")]

mod away;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod beats;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod busy;
#[cfg(all(feature = "postgres", feature = "rabbitmq"))]
mod consumer;
#[cfg(all(
    feature = "failpoints",
    feature = "kafka",
    feature = "postgres",
    feature = "rabbitmq",
    feature = "sqlite"
))]
mod crash;
mod cycle;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod errors;
#[cfg(all(feature = "postgres", feature = "rabbitmq"))]
mod faults;
#[cfg(feature = "metrics")]
mod figures;
mod group;
mod handler;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "kafka")]
mod kafka;
mod lines;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod mapped_inbox;
mod memory;
#[cfg(feature = "metrics")]
mod meter;
#[cfg(feature = "mysql")]
mod mysql;
mod once;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod pauses;
mod pipe;
#[cfg(feature = "postgres")]
mod postgres;
mod publisher;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(feature = "smtp")]
mod smtp;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
mod streak;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod table;
mod unordered;

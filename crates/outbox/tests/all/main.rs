//! The integration tests, one binary: against real servers, through the public interface.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "rabbitmq")]
mod rabbitmq;

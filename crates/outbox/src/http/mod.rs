//! HTTP: an endpoint of an application in any language as a handler.
//!
//! `sink.rs` posts, `envelope.rs` writes the headers of a request, `sign.rs` signs it, `guard.rs` says which addresses may
//! be called, `tls.rs` whom to trust, `client.rs` what is never followed, `answer.rs` what an answer means.

mod answer;
mod client;
mod config;
mod envelope;
mod guard;
mod sign;
mod sink;
mod tls;

#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz;

#[doc(hidden)]
pub use client::client;
pub use config::EndpointConfig;
pub use sign::Secret;
pub use sink::{Endpoint, NO_ANSWER};

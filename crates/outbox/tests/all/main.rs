//! Every integration test of the library, in one binary: one module per backend, and the loop itself.

#![allow(clippy::unwrap_used, reason = "a test that fails should say where")]

mod memory;
#[cfg(feature = "postgres")]
mod postgres;

//! Every integration test of the library, in one binary: one module per backend, and the loop itself.
#![allow(clippy::unwrap_used)]

mod memory;
#[cfg(feature = "sqlite")]
mod sqlite;

//! Every integration test of the library in one binary: it links once.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "sqlite")]
mod sqlite;

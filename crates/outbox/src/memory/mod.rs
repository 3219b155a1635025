//! The reference backend: an outbox, an inbox and a sink in memory.
//!
//! It keeps every clause with nothing but a lock, so it is where to look for what a clause means, and what to
//! test a pipe with. Nothing of it survives the process.

mod inbox;
mod log;
mod sink;
mod store;

pub use inbox::{Inbox, Tx};
pub use log::{Cursor, Outbox};
pub use sink::Recorder;
pub use store::LogStore;

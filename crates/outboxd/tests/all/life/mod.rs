//! What becomes of a message, and what people do about it: the whole path with real servers.

mod errors;
#[cfg(feature = "kafka")]
mod kafka;
mod letters;
pub mod scene;
mod states;

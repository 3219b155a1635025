//! What is looked at, in which kind of source and sink, and in this program. Nothing is changed, save for the messages of a
//! probe.

mod broker;
mod handler;
mod kafka;
mod relay;
mod sink;
mod source;
mod sqlite;
mod window;

pub use relay::examine as relay;
pub use sink::examine as sink;
pub use source::examine as source;

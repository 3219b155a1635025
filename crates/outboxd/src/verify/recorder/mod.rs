//! Who notes what arrives: at the end of a file, at a queue or at a topic.

mod lines;
mod queue;
#[cfg(feature = "kafka")]
mod topic;

pub(super) use lines::record_lines;
pub(super) use queue::record_queue;
#[cfg(feature = "kafka")]
pub(super) use topic::record_topic;

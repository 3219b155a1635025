//! The dead letters of sources on a broker.

use outbox::Result;
use outbox::letters::DeadLetters;
use outbox::rabbitmq::DeadQueue;

use super::config::work_queue_config;
use crate::plan::{Layout, SourcePlan};

/// The dead letters of a source; none if it is no source on a broker. Nothing is connected yet.
pub fn letters(source: &SourcePlan) -> Option<Result<Box<dyn DeadLetters>>> {
    let url = source.connection.url.reveal();
    match &source.layout {
        Layout::Queue(options) => {
            let letters = DeadQueue::new(url, work_queue_config(options));
            Some(letters.map(|letters| Box::new(letters) as Box<dyn DeadLetters>))
        }
        #[cfg(feature = "kafka")]
        Layout::Topic(options) => {
            let letters = outbox::kafka::DeadTopic::new(url, super::config::group_config(options));
            Some(letters.map(|letters| Box::new(letters) as Box<dyn DeadLetters>))
        }
        #[cfg(not(feature = "kafka"))]
        Layout::Topic(_) => Some(Err(outbox::Error::new(outbox::ErrorKind::Config, super::WITHOUT_KAFKA))),
        Layout::Log(_) | Layout::Table(_) => None,
    }
}

//! What a publisher keeps, in the log: the [`Store`].

use std::collections::HashSet;

use async_trait::async_trait;

use super::Outbox;
use crate::error::Result;
use crate::message::{Limits, Message};
use crate::store::Store;

/// A log with the name of the pipe that delivers what is kept in it.
#[derive(Debug, Clone)]
pub struct LogStore {
    outbox: Outbox,
    pipe: String,
}

impl LogStore {
    pub(super) fn new(outbox: Outbox, pipe: String) -> Self {
        Self { outbox, pipe }
    }
}

#[async_trait]
impl Store for LogStore {
    fn limits(&self) -> Limits {
        self.outbox.message_limits()
    }

    fn admit(&self, message: Message) -> Result<Message> {
        self.limits().check(&message).map(|()| message)
    }

    async fn keep(&self, messages: &[Message]) -> Result<()> {
        let new = messages.iter().filter(|message| !self.outbox.has(&message.id));
        self.outbox.enqueue_all(new.cloned().collect())
    }

    async fn has_kept(&self, keys: &[&str]) -> Result<HashSet<String>> {
        let undone = keys.iter().filter(|key| self.outbox.is_undone(&self.pipe, key));
        Ok(undone.map(|key| (*key).to_owned()).collect())
    }
}

//! The sink at the end of an error queue.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{ErrorFilter, ErrorLog, ErrorRecord};
use crate::cuts::Cuts;
use crate::error::{Error, ErrorKind};
use crate::message::Message;
use crate::sink::{Cause, Outcome, Sink, code};

/// Writes what arrives from an error queue to an [`ErrorLog`]. Writing twice is no harm, so it needs no inbox. It takes
/// messages with a defect too, with what is legible of them.
///
/// | what happens | outcome |
/// | --- | --- |
/// | it is written, or was before | delivered |
/// | the table cannot hold the message (an id that is no UUID, where one is needed) | refused, `UNFIT` |
/// | the database cannot be reached, the table is missing or has changed, a grant | unavailable |
/// | the connection breaks under it time after time, and not under others | refused, `HANDLER` |
pub struct ErrorSink {
    log: Arc<dyn ErrorLog>,
    cuts: Cuts,
}

impl ErrorSink {
    /// Writes to this log.
    pub fn new(log: Arc<dyn ErrorLog>) -> Self {
        Self { log, cuts: Cuts::default() }
    }

    /// The connection broke while a message was written, alone. A server may do that to one that is too large for it.
    async fn broke(&self, message: &Message, error: &Error) -> Outcome {
        let one = ErrorFilter { limit: 1, ..ErrorFilter::default() };
        if self.log.list(&one).await.is_ok() && self.cuts.is_by(&message.id) {
            return Outcome::refused(Cause::new(code::HANDLER, error.chain()));
        }
        unavailable(error)
    }

    async fn write_each(&self, records: &[ErrorRecord]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(records.len());
        for record in records {
            match self.log.write(std::slice::from_ref(record)).await {
                Ok(()) => outcomes.push(Outcome::Delivered),
                Err(error) if is_outage(&error) => {
                    // The rest would meet the same.
                    outcomes.resize(records.len(), unavailable(&error));
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Invalid => {
                    outcomes.push(Outcome::refused(Cause::new(code::UNFIT, error)));
                }
                Err(error) => outcomes.push(Outcome::rejected(Cause::new(code::HANDLER, error))),
            }
        }
        outcomes
    }
}

#[async_trait]
impl Sink for ErrorSink {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        let now = Timestamp::now();
        let records: Vec<_> = messages.iter().map(|message| ErrorRecord::of(message, now)).collect();
        match self.log.write(&records).await {
            Ok(()) => vec![Outcome::Delivered; messages.len()],
            Err(error) if is_outage(&error) => match messages {
                [only] if error.is_temporary() => vec![self.broke(only, &error).await],
                _ => vec![unavailable(&error); messages.len()],
            },
            Err(_) => self.write_each(&records).await,
        }
    }

    /// What is broken belongs here more than anything else.
    fn takes_defects(&self) -> bool {
        true
    }
}

fn is_outage(error: &Error) -> bool {
    let by_setup = matches!(
        error.kind(),
        ErrorKind::Denied | ErrorKind::NotMigrated | ErrorKind::Mapping | ErrorKind::Config
    );
    by_setup || error.is_temporary()
}

fn unavailable(error: &Error) -> Outcome {
    Outcome::Unavailable(Cause::new(code::UNREACHABLE, error.chain()))
}

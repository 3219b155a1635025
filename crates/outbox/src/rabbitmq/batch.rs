//! The messages of one call, and what is known of each so far.

use super::config::ExchangeConfig;
use super::confirm::Fate;
use super::envelope::Envelope;
use super::publish::Parcel;
use crate::message::Message;
use crate::sink::{Cause, Outcome, code};

/// The messages of one call to `deliver`.
pub(super) struct Batch<'a> {
    entries: Vec<Entry<'a>>,
    config: &'a ExchangeConfig,
}

struct Entry<'a> {
    message: &'a Message,
    state: State,
}

enum State {
    /// Not known to have arrived anywhere. The envelope goes with the message; one that is sent again gets another.
    Open(Option<Box<Envelope>>),
    /// Answered by the broker.
    Answered(Fate),
    /// Decided.
    Outcome(Outcome),
}

impl<'a> Batch<'a> {
    /// Puts every message in its envelope; those that cannot have one are decided already.
    pub(super) fn new(messages: &'a [Message], config: &'a ExchangeConfig) -> Self {
        let entries = messages.iter().map(|message| {
            let state = match Envelope::new(message, config) {
                Ok(envelope) => State::Open(Some(Box::new(envelope))),
                Err(outcome) => State::Outcome(outcome),
            };
            Entry { message, state }
        });
        Self { entries: entries.collect(), config }
    }

    /// The positions of the messages that are to be sent.
    pub(super) fn open(&self) -> Vec<usize> {
        let open = self.entries.iter().enumerate().filter(|(_, entry)| matches!(entry.state, State::Open(_)));
        open.map(|(at, _)| at).collect()
    }

    /// Refuses what has more headers than fit in a frame: the broker would close the connection for it.
    pub(super) fn fit(&mut self, frame_max: usize) {
        for entry in &mut self.entries {
            if let State::Open(Some(envelope)) = &entry.state
                && envelope.weight > frame_max
            {
                let detail = format!("the headers take {} bytes, a frame {frame_max}", envelope.weight);
                entry.state = State::Outcome(Outcome::defect(Cause::new(code::TOO_LARGE, detail)));
            }
        }
    }

    /// The id of a message.
    pub(super) fn id(&self, at: usize) -> &'a str {
        self.entries[at].message.id.as_str()
    }

    /// A message that is to be sent, ready to be sent.
    pub(super) fn parcel(&mut self, at: usize) -> Option<Parcel<'a>> {
        let entry = &mut self.entries[at];
        let envelope = match &mut entry.state {
            State::Open(envelope) => envelope.take().map(|envelope| *envelope),
            State::Answered(_) | State::Outcome(_) => return None,
        };
        let envelope = envelope.or_else(|| Envelope::new(entry.message, self.config).ok())?;
        Some(Parcel { envelope, payload: &entry.message.payload })
    }

    /// Notes what the broker answered; what is not known stays open.
    pub(super) fn answer(&mut self, at: usize, fate: Fate) {
        let entry = &mut self.entries[at];
        if matches!(entry.state, State::Open(_)) && fate != Fate::Unknown {
            entry.state = State::Answered(fate);
        }
    }

    /// Decides one message.
    pub(super) fn decide(&mut self, at: usize, outcome: Outcome) {
        self.entries[at].state = State::Outcome(outcome);
    }

    /// The outcomes, in order; what is still open is unavailable for `cause`.
    ///
    /// A nack is a queue that is full, or a broker in trouble. When the broker takes nothing of a batch, the
    /// destination is at fault; when it takes some, the others are refused one by one and tried again.
    pub(super) fn finish(self, place: &str, cause: Option<Cause>) -> Vec<Outcome> {
        let takes_some =
            self.entries.iter().any(|entry| matches!(entry.state, State::Answered(Fate::Delivered)));
        let cause = cause.unwrap_or_else(|| Cause::new(code::UNREACHABLE, format!("{place}: no answer")));
        let key = |message: &'a Message| self.config.routing_key.render(message).unwrap_or_default();
        let outcome = |entry: Entry<'a>| match entry.state {
            State::Outcome(outcome) => outcome,
            State::Answered(Fate::Delivered) => Outcome::Delivered,
            State::Answered(Fate::Unroutable) => {
                let key = key(entry.message);
                let detail = format!("{place}: no queue is bound for the routing key '{key}'");
                Outcome::rejected(Cause::new(code::NO_ROUTE, detail))
            }
            State::Answered(Fate::Nacked) => {
                let key = key(entry.message);
                let detail =
                    format!("{place}: a queue for the routing key '{key}' refuses it; it may be full");
                let cause = Cause::new(code::REFUSED, detail);
                if takes_some { Outcome::rejected(cause) } else { Outcome::Unavailable(cause) }
            }
            State::Answered(Fate::Unknown) | State::Open(_) => Outcome::Unavailable(cause.clone()),
        };
        self.entries.into_iter().map(outcome).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(fates: &[Fate]) -> Vec<&'static str> {
        let messages: Vec<Message> = fates.iter().map(|_| Message::new("a", "")).collect();
        let config = ExchangeConfig::new("x");
        let mut batch = Batch::new(&messages, &config);
        for (at, fate) in fates.iter().enumerate() {
            batch.answer(at, *fate);
        }
        let outcomes = batch.finish("x", Some(Cause::new(code::TIMEOUT, "late")));
        let short = |outcome: Outcome| match outcome {
            Outcome::Delivered => "delivered",
            Outcome::Rejected(_) => "rejected",
            Outcome::Unavailable(_) => "unavailable",
        };
        outcomes.into_iter().map(short).collect()
    }

    #[test]
    fn nacks_are_an_outage_only_when_nothing_is_taken() {
        use Fate::{Delivered, Nacked, Unknown, Unroutable};
        assert_eq!(finished(&[Nacked, Nacked]), ["unavailable", "unavailable"]);
        assert_eq!(finished(&[Nacked, Unroutable]), ["unavailable", "rejected"]);
        assert_eq!(finished(&[Delivered, Nacked, Unknown]), ["delivered", "rejected", "unavailable"]);
    }
}

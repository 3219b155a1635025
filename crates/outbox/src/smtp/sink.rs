//! [`Mailer`], the sink: a letter per message.

use std::fmt;

use async_trait::async_trait;

use super::answer::outcome;
use super::config::MailConfig;
use super::letter::Letter;
use super::relay::Relay;
use super::session::Sessions;
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::sink::{Outcome, Sink, code};
use crate::together;

/// A mail server, which gets a letter for every message.
///
/// Delivered means that the server has accepted the letter for all of its recipients. The letter bears the id of the
/// message in `Message-ID`, the same for every repeat, and in `X-Event-Id`; `X-Correlation-Id` is there too.
///
/// | what happens | outcome |
/// | --- | --- |
/// | accepted | delivered |
/// | sender, a recipient or the content refused with 5xx | refused `SMTP_<code>`; nobody gets it |
/// | the same with 4xx (greylisting, a full mailbox) | rejected `SMTP_<code>` |
/// | a template lacks something of the message, no JSON, no address | refused `UNFIT`, with the name of the field |
/// | the letter was sent and no answer came | rejected `TIMEOUT` or `UNREACHABLE`: the server may have it |
/// | no connection, no trust (TLS), lost before the letter was sent | unavailable `UNREACHABLE` |
/// | no greeting, or no answer before the letter was sent | unavailable `TIMEOUT` |
/// | the login is refused, or the server wants one | unavailable `FORBIDDEN` |
/// | the server refuses to talk, or closes (421) | unavailable `REFUSED` |
///
/// `smtps:` is TLS from the first byte, `smtp:` wants STARTTLS and does not go on without, unless `plaintext` is set
/// or the server is on this machine. Connections are kept for the next letters.
pub struct Mailer {
    sessions: Sessions,
    config: MailConfig,
    /// The server, for every cause.
    place: String,
}

impl Mailer {
    /// A sink to the server of this URL, see [`Relay::parse`]: one that is not there is no error here.
    ///
    /// A malformed URL or configuration is an error of kind [`Config`](ErrorKind::Config).
    pub fn new(url: &str, config: MailConfig) -> Result<Self> {
        config.check()?;
        let relay = Relay::parse(url)?;
        let place = relay.to_string();
        let sessions = Sessions::new(relay, &config)?;
        Ok(Self { sessions, config, place })
    }

    /// Connects now and logs in; sends nothing.
    pub async fn check(&self) -> Result<()> {
        self.sessions.check().await.map_err(|(stage, fault)| {
            let (kind, cause) = match outcome(stage, &fault, &self.place) {
                Outcome::Unavailable(cause) if cause.code == code::FORBIDDEN => {
                    (ErrorKind::Denied, cause.detail)
                }
                Outcome::Unavailable(cause) if cause.code == code::TIMEOUT => {
                    (ErrorKind::Timeout, cause.detail)
                }
                Outcome::Unavailable(cause) if cause.code == code::REFUSED => (ErrorKind::Busy, cause.detail),
                Outcome::Unavailable(cause) => (ErrorKind::Unreachable, cause.detail),
                _ => (ErrorKind::Unexpected, format!("{}: {fault:?}", self.place)),
            };
            Error::new(kind, cause)
        })
    }

    async fn send(&self, message: &Message) -> Outcome {
        let letter = match Letter::new(message, &self.config) {
            Ok(letter) => letter,
            Err(unfit) => return unfit,
        };
        match self.sessions.send(&letter).await {
            Ok(()) => Outcome::Delivered,
            Err((stage, fault)) => outcome(stage, &fault, &self.place),
        }
    }
}

impl fmt::Debug for Mailer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mailer({})", self.place)
    }
}

#[async_trait]
impl Sink for Mailer {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        together::deliver(messages, self.config.connections, |message| self.send(message)).await
    }
}

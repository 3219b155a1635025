//! Questions to a broker, which answers a no by closing the channel that it was asked on.

use std::time::Duration;

use lapin::options::BasicPublishOptions;
use lapin::{BasicProperties, Channel, Error as Driver};
use tokio::time::{Instant, sleep, timeout_at};

use super::connection::{Link, Session};
use super::declare::short;
use super::error::told;
use crate::error::Result;
use crate::finding::Finding;

/// Nobody has a queue of this name: what is sent there is dropped.
const NOBODY: &str = "outboxd.doctor.nobody";

/// How often it is looked whether the broker has told of an alarm.
const LOOK: Duration = Duration::from_millis(20);

/// Who asks.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) link: &'a Link,
    pub(super) session: &'a Session,
    /// How long an answer may take.
    pub(super) limit: Duration,
}

impl Asking<'_> {
    /// A question that is answered with no costs its channel.
    pub(super) async fn ask<T>(
        &self,
        question: impl AsyncFnOnce(&Channel) -> lapin::Result<T>,
    ) -> Result<T, Answer> {
        let deadline = Instant::now() + self.limit;
        let channel = match self.session.channel(self.link.shown(), deadline).await {
            Ok(channel) => channel,
            Err(cause) => return Err(Answer::Error(cause.to_string())),
        };
        let asked = timeout_at(deadline, question(&channel)).await;
        let answered = asked.map_err(|_| Answer::Error("the broker did not answer in time".to_owned()))?;
        let answered = answered.map_err(|error| Answer::of(&error))?;
        self.session.give_back(channel);
        Ok(answered)
    }

    /// Whether the broker takes messages. It tells of an alarm only to those who send something, so a message is sent
    /// to nobody, and dropped by the broker.
    pub(super) async fn alarm(&self) -> Finding {
        let sent = self.ask(async |channel| {
            // The first may still get through: by it the broker learns that we publish, and stops reading.
            for _ in 0..2 {
                let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
                channel.basic_publish(short(""), short(NOBODY), options, b"", properties).await?.await?;
            }
            Ok(())
        });
        let blocked = async {
            loop {
                match self.session.blocked() {
                    Some(reason) => break reason,
                    None => sleep(LOOK).await,
                }
            }
        };
        tokio::select! {
            answer = sent => match answer {
                Err(Answer::Error(text)) => Finding::warning("alarm", format!("it cannot be told: {text}")),
                // Who may not send there is answered too.
                _ => Finding::ok("alarm", "the broker takes messages"),
            },
            reason = blocked => {
                Finding::failure("alarm", format!("the broker blocks publishers: {reason}"))
                    .fix("give the broker memory or disk; work resumes by itself")
            }
        }
    }
}

/// What the broker said to a question, if not yes.
#[derive(Debug)]
pub(super) enum Answer {
    Missing,
    Differs(String),
    Denied(String),
    Error(String),
}

impl Answer {
    fn of(error: &Driver) -> Self {
        match told(error) {
            Some((404, _)) => Self::Missing,
            Some((406, text)) => Self::Differs(text.to_owned()),
            Some((403, text)) => Self::Denied(text.to_owned()),
            Some((_, text)) => Self::Error(text.to_owned()),
            None => Self::Error(error.to_string()),
        }
    }
}

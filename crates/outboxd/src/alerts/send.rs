//! Brings an alert to where it should go, and tries again until it is there.

use std::sync::Arc;
use std::time::Duration;

use outbox::policy::Backoff;
use outbox::{Cause, Message, Outcome, Sink, code};
use serde_json::json;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::state::Change;
use crate::backends::{Log, Sinks};
use crate::plan::{AlertsPlan, Plan, SourcePlan};
use crate::trouble::Trouble;

/// The type of the messages.
pub const KIND: &str = "outboxd.alert";

/// So long one waits before trying again.
const AGAIN: Backoff = Backoff { first: Duration::from_secs(1), most: Duration::from_secs(60) };

/// So long an alert is brought again that was refused: whoever refuses it may only be badly set up for a moment.
const REFUSED: Duration = Duration::from_secs(300);

/// So many wait for one place; who does not read a thousand alerts does not read more.
const WAITING: usize = 1_000;

/// Where alerts go.
enum Way {
    /// Straight to a sink.
    Sink(Arc<dyn Sink>),
    /// Into an outbox, whose pipes carry it on.
    Outbox(Box<SourcePlan>),
}

/// Why an alert did not get there, and whether trying again should not help.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    cause: Cause,
    is_refusal: bool,
}

/// One place where alerts go.
pub struct Courier {
    to: String,
    send: Sender<Message>,
}

/// A courier for each place; a sink that cannot be used is told.
pub fn couriers(plan: &Plan, alerts: &AlertsPlan, stop: &CancellationToken) -> Vec<Courier> {
    let mut sinks = Sinks::new(Arc::default());
    let mut ways = Vec::new();
    for name in &alerts.to {
        let sink = &plan.sinks[name];
        if let Err(error) = sinks.prepare(sink, &CancellationToken::new()) {
            let trouble = Trouble::at_sink("no alerts go there: cannot use the sink", sink, &error);
            tracing::error!(sink = name, "{trouble}; {}", trouble.help());
        }
        ways.extend(sinks.of_pipe(sink, "alerts").map(|sink| (name.clone(), Way::Sink(sink))));
    }
    let into =
        alerts.into.iter().map(|name| (name.clone(), Way::Outbox(Box::new(plan.sources[name].clone()))));
    ways.extend(into);
    let courier = |(to, way): (String, Way)| {
        let (send, receive) = channel(WAITING);
        tokio::spawn(carry(to.clone(), way, receive, stop.clone()));
        Courier { to, send }
    };
    ways.into_iter().map(courier).collect()
}

impl Courier {
    /// Takes an alert; what is too much is told and dropped.
    pub fn take(&self, message: Message) {
        if self.send.try_send(message).is_err() {
            tracing::error!(to = self.to, "an alert was dropped: too many wait to be sent there");
        }
    }
}

/// An alert as a message.
pub fn message(change: &Change, instance: &str) -> outbox::Result<Message> {
    let labels: Vec<&str> = change.labels.values().map(String::as_str).collect();
    let body = json!({
        "status": change.status.as_str(),
        "alert": change.alert,
        "severity": change.severity.as_str(),
        "summary": change.summary,
        "labels": change.labels,
        "since": change.since,
        "instance": instance,
    });
    // One key for what belongs together, so that the end does not overtake the beginning.
    Ok(Message::json(KIND, &body)?.key(format!("{} {}", change.alert, labels.join(" "))))
}

/// One after the other, until the stop.
async fn carry(to: String, way: Way, mut waiting: Receiver<Message>, stop: CancellationToken) {
    while let Some(Some(message)) = stop.run_until_cancelled(waiting.recv()).await {
        let (mut failures, begun) = (0, Instant::now());
        let mut given_up = false;
        while let Err(failure) = way.bring(&message).await {
            let cause = failure.cause;
            given_up = failure.is_refusal && begun.elapsed() >= REFUSED;
            if given_up {
                tracing::error!(to, %cause, "an alert was given up: it is refused there again and again");
                break;
            }
            failures += 1;
            if failures == 1 {
                tracing::warn!(to, %cause, "cannot send an alert; trying again");
            }
            let pause = tokio::time::sleep(AGAIN.delay(failures, rand::random()));
            if stop.run_until_cancelled(pause).await.is_none() {
                return leave(&to, waiting.len() + 1);
            }
        }
        if failures > 0 && !given_up {
            tracing::info!(to, failures, "alerts can be sent again");
        }
    }
    leave(&to, waiting.len());
}

fn leave(to: &str, left: usize) {
    if left > 0 {
        tracing::warn!(to, left, "stopping before every alert was sent");
    }
}

impl Way {
    async fn bring(&self, message: &Message) -> Result<(), Failure> {
        match self {
            Self::Sink(sink) => judge(sink.deliver(std::slice::from_ref(message)).await.into_iter().next()),
            Self::Outbox(source) => {
                let written = async { Log::open(source).await?.enqueue(message.clone()).await };
                written.await.map(drop).map_err(|error| Failure {
                    cause: Cause::new(code::UNREACHABLE, error.chain()),
                    is_refusal: !error.is_temporary(),
                })
            }
        }
    }
}

/// What became of an alert. Of what nobody tells it is not known that it is there.
fn judge(outcome: Option<Outcome>) -> Result<(), Failure> {
    match outcome {
        Some(Outcome::Delivered) => Ok(()),
        Some(Outcome::Rejected(rejection)) => {
            Err(Failure { cause: rejection.cause, is_refusal: rejection.permanent })
        }
        Some(Outcome::Unavailable(cause)) => Err(Failure { cause, is_refusal: false }),
        None => {
            let cause = Cause::new(code::REFUSED, "the sink did not tell what became of it");
            Err(Failure { cause, is_refusal: true })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use outbox::memory::Recorder;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn d7_an_alert_that_is_refused_is_brought_again_for_5_minutes() {
        let (sink, asked) = (Recorder::new(), AtomicUsize::new(0));
        sink.judge_by(move |message| match message.kind.as_str() {
            "well" => Outcome::Delivered,
            "later" if asked.fetch_add(1, Ordering::Relaxed) >= 3 => Outcome::Delivered,
            _ => Outcome::refused(Cause::new(code::FORBIDDEN, "403")),
        });
        let (send, waiting) = channel(3);
        for kind in ["later", "never", "well"] {
            send.send(Message::json(kind, &json!({})).expect("it is JSON")).await.expect("it is open");
        }
        drop(send);
        let begun = Instant::now();
        carry("hook".to_owned(), Way::Sink(Arc::new(sink.clone())), waiting, CancellationToken::new()).await;
        let kinds: Vec<_> = sink.received().iter().map(|message| message.kind.clone()).collect();
        assert_eq!(kinds, ["later", "well"]);
        let took = begun.elapsed();
        assert!(took >= REFUSED && took < REFUSED + Duration::from_secs(100), "{took:?}");
    }

    #[test]
    fn d7_an_alert_of_which_nobody_tells_has_not_arrived() {
        assert_eq!(judge(Some(Outcome::Delivered)), Ok(()));
        let cause = || Cause::new(code::FORBIDDEN, "403");
        assert!(judge(None).is_err());
        assert_eq!(
            judge(Some(Outcome::Unavailable(cause()))),
            Err(Failure { cause: cause(), is_refusal: false })
        );
    }
}

//! Whether a queue keeps what it is given.
//!
//! AMQP has no question for the arguments of a queue. But a queue that is declared anew with others is not changed, and
//! the broker tells the first difference: so they are learnt one by one. What a policy sets is not told to anybody
//! but the management API.

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};

use super::ask::{Answer, Asking};
use super::declare::short;
use crate::finding::Finding;

/// A queue has fewer arguments than this.
const MOST: usize = 32;

const WHAT: &str = "keeping";

/// A queue as it was made.
#[derive(Debug, Clone, Default)]
struct Made {
    durable: bool,
    auto_delete: bool,
    arguments: FieldTable,
}

/// Whose queue it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Somebody else reads it.
    Others,
    /// We read it.
    Ours,
}

/// Looks at a queue that is there. Nothing if this user may not ask.
pub(super) async fn examine(asking: Asking<'_>, queue: &str, whose: Whose) -> Vec<Finding> {
    match learn(asking, queue).await {
        Some(made) => made.judge(queue, whose),
        None => Vec::new(),
    }
}

/// Learns how a queue was made, which must be there; none if the broker does not tell.
async fn learn(asking: Asking<'_>, queue: &str) -> Option<Made> {
    let mut made = Made { durable: true, ..Made::default() };
    for _ in 0..MOST {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let same = QueueDeclareOptions {
            durable: made.durable,
            auto_delete: made.auto_delete,
            ..QueueDeclareOptions::default()
        };
        let asked = asking.ask(async |channel| {
            // One that has gone meanwhile is not made.
            channel.queue_declare(short(queue), passive, FieldTable::default()).await?;
            channel.queue_declare(short(queue), same, made.arguments.clone()).await
        });
        match asked.await {
            Ok(_) => return Some(made),
            Err(Answer::Differs(text)) => made.learn(&text)?,
            Err(_) => return None,
        }
    }
    None
}

impl Made {
    /// Takes over what the broker told; none if that teaches nothing.
    fn learn(&mut self, text: &str) -> Option<()> {
        let rest = text.split_once("inequivalent arg '")?.1;
        let (name, rest) = rest.split_once('\'')?;
        let is = rest.split_once(" but current is ")?.1;
        if is.starts_with("none") {
            // What was never given cannot be taken away.
            self.arguments.inner().get(name)?;
            let mut others = FieldTable::default();
            for (other, value) in self.arguments.inner().iter().filter(|(other, _)| other.as_str() != name) {
                others.insert(other.clone(), value.clone());
            }
            self.arguments = others;
            return Some(());
        }
        let (_, value) = is.split_once('\'')?;
        let (value, kind) = value.split_once('\'')?;
        match name {
            "durable" => self.durable = value == "true",
            "auto_delete" => self.auto_delete = value == "true",
            _ if !name.starts_with("x-") => return None,
            _ => {
                let value = if kind.contains("'bool'") {
                    AMQPValue::Boolean(value == "true")
                } else if let (Ok(number), false) = (value.parse(), kind.contains("'longstr'")) {
                    AMQPValue::LongLongInt(number)
                } else {
                    AMQPValue::LongString(value.into())
                };
                self.arguments.insert(short(name), value);
            }
        }
        Some(())
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.arguments.inner().get(name)? {
            AMQPValue::LongString(text) => Some(String::from_utf8_lossy(text.as_bytes()).into_owned()),
            _ => None,
        }
    }

    fn number(&self, name: &str) -> Option<i64> {
        match self.arguments.inner().get(name)? {
            AMQPValue::LongLongInt(number) => Some(*number),
            _ => None,
        }
    }

    fn has_dead_letters(&self) -> bool {
        self.text("x-dead-letter-exchange").is_some()
    }

    /// What is to be said of it.
    fn judge(&self, queue: &str, whose: Whose) -> Vec<Finding> {
        let found: Vec<_> = [
            self.short_life(queue),
            self.overflow(queue),
            self.age(queue),
            self.delivery_limit(queue, whose),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !found.is_empty() {
            return found;
        }
        let kind = self.text("x-queue-type").unwrap_or_else(|| "classic".to_owned());
        let evidence = format!("'{queue}' ({kind}) is durable, and by its arguments drops nothing");
        vec![Finding::ok(WHAT, evidence)]
    }

    /// Whether the queue itself may go.
    fn short_life(&self, queue: &str) -> Option<Finding> {
        let why = match self {
            Self { durable: false, .. } => "it is not durable, and goes when the broker starts anew",
            Self { auto_delete: true, .. } => "it is deleted when its last consumer leaves (auto-delete)",
            _ if self.number("x-expires").is_some() => "it is deleted when nobody uses it (x-expires)",
            _ => return None,
        };
        let evidence = format!("'{queue}': {why}, with all that is in it");
        Some(Finding::warning(WHAT, evidence).fix(anew(queue, "durable, without auto-delete and x-expires")))
    }

    /// What becomes of messages when it is full.
    fn overflow(&self, queue: &str) -> Option<Finding> {
        let limits = ["x-max-length", "x-max-length-bytes"];
        let limit = limits.into_iter().find_map(|name| Some(format!("{name} {}", self.number(name)?)))?;
        let fix = || anew(queue, "with x-overflow = \"reject-publish\", or without a limit");
        match self.text("x-overflow").as_deref() {
            Some("reject-publish" | "reject-publish-dlx") => None,
            _ if self.has_dead_letters() => {
                let evidence = format!(
                    "'{queue}': with {limit} the oldest messages go to the dead letters when it is full"
                );
                Some(Finding::warning(WHAT, evidence).fix(fix()))
            }
            Some(_) => {
                let evidence = format!(
                    "'{queue}': with {limit} and x-overflow 'drop-head' messages are lost when it is full"
                );
                Some(Finding::failure(WHAT, evidence).fix(fix()))
            }
            None => {
                let evidence = format!(
                    "'{queue}': with {limit} and no x-overflow the oldest messages are lost when it is full, unless a policy \
                     says otherwise"
                );
                Some(Finding::failure(WHAT, evidence).fix(fix()))
            }
        }
    }

    /// What becomes of messages that wait for long.
    fn age(&self, queue: &str) -> Option<Finding> {
        let millis = self.number("x-message-ttl").filter(|_| !self.has_dead_letters())?;
        let evidence = format!("'{queue}': messages that wait for {millis} ms are lost (x-message-ttl)");
        Some(
            Finding::warning(WHAT, evidence)
                .fix(anew(queue, "without x-message-ttl, or with a dead-letter exchange")),
        )
    }

    /// What becomes of messages that are handed out again and again.
    fn delivery_limit(&self, queue: &str, whose: Whose) -> Option<Finding> {
        if self.text("x-queue-type").as_deref() != Some("quorum") {
            return None;
        }
        let limit = self.number("x-delivery-limit").filter(|limit| *limit >= 0);
        let policy =
            |sets: &str| format!("rabbitmqctl set_policy --apply-to queues '{queue}' '^{queue}$' '{sets}'");
        match (limit, self.has_dead_letters(), whose) {
            (Some(limit), false, _) => {
                let evidence = format!(
                    "'{queue}': what was handed out {limit} times is lost, for there is no dead-letter exchange, unless a \
                     policy sets one"
                );
                let fix = policy("{\"dead-letter-exchange\": \"\", \"dead-letter-routing-key\": \"QUEUE\"}");
                Some(Finding::warning(WHAT, evidence).fix(fix))
            }
            (None, false, Whose::Ours) if !self.is_unlimited() => {
                let evidence = format!(
                    "'{queue}' has no x-delivery-limit and no dead-letter exchange: since version 4 RabbitMQ drops what it \
                     has handed out 20 times, unless a policy says otherwise"
                );
                let fix = policy("{\"delivery-limit\": 1000000000}");
                Some(Finding::warning(WHAT, evidence).fix(fix))
            }
            _ => None,
        }
    }

    /// -1 is for no limit.
    fn is_unlimited(&self) -> bool {
        self.number("x-delivery-limit").is_some_and(|limit| limit < 0)
    }
}

fn anew(queue: &str, how: &str) -> String {
    format!("delete '{queue}' while it is empty, and make it anew {how}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Level;

    fn made(told: &[&str]) -> Made {
        let mut made = Made { durable: true, ..Made::default() };
        for text in told {
            let text = format!("PRECONDITION_FAILED - inequivalent arg {text}");
            made.learn(&text).unwrap_or_else(|| panic!("{text}"));
        }
        made
    }

    fn level(made: &Made, whose: Whose) -> Level {
        made.judge("q", whose).iter().map(|finding| finding.level).max().unwrap()
    }

    const LIMIT: &str = "'x-max-length' for queue 'q' in vhost '/': received none but current is the value '10' of type 'signedint'";
    const QUORUM: &str = "'x-queue-type' for queue 'q' in vhost '/': received none but current is the value 'quorum' of type 'longstr'";
    const LETTERS: &str = "'x-dead-letter-exchange' for queue 'q' in vhost '/': received none but current is the value '' of type 'longstr'";

    #[test]
    fn what_the_broker_tells_is_learnt() {
        let made = made(&[
            LIMIT,
            QUORUM,
            LETTERS,
            "'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'",
        ]);
        assert_eq!((made.number("x-max-length"), made.durable), (Some(10), false));
        assert_eq!(made.text("x-queue-type").as_deref(), Some("quorum"));
        assert!(made.has_dead_letters());
        let mut other = made.clone();
        other.learn("inequivalent arg 'x-max-length' for queue 'q': received the value '10' of type 'long' but current is none").unwrap();
        assert_eq!((other.number("x-max-length"), other.has_dead_letters()), (None, true));
        assert!(other.learn("something else").is_none());
        assert!(
            other
                .learn("inequivalent arg 'exclusive' for queue 'q': received 'false' but current is 'true'")
                .is_none()
        );
    }

    #[test]
    fn a_queue_that_drops_is_told_and_one_that_refuses_is_well() {
        let overflow = |how: &str| {
            format!(
                "'x-overflow' for queue 'q' in vhost '/': received none but current is the value '{how}' of type 'longstr'"
            )
        };
        for (told, expected) in [
            (vec![], Level::Ok),
            (vec![LIMIT], Level::Failure),
            (vec![LIMIT, LETTERS], Level::Warning),
            (vec![LIMIT, &overflow("drop-head")], Level::Failure),
            (vec![LIMIT, &overflow("reject-publish")], Level::Ok),
            (vec![&overflow("drop-head")], Level::Ok),
            (vec!["'durable' for queue 'q': received 'true' but current is 'false'"], Level::Warning),
        ] {
            assert_eq!(level(&made(&told), Whose::Others), expected, "{told:?}");
        }
    }

    #[test]
    fn a_limit_of_deliveries_needs_a_place_for_what_is_given_up() {
        let limit =
            "'x-delivery-limit' for queue 'q': received none but current is the value '5' of type 'long'";
        let none =
            "'x-delivery-limit' for queue 'q': received none but current is the value '-1' of type 'long'";
        for (told, others, ours) in [
            (vec![QUORUM], Level::Ok, Level::Warning),
            (vec![QUORUM, none], Level::Ok, Level::Ok),
            (vec![QUORUM, limit], Level::Warning, Level::Warning),
            (vec![QUORUM, limit, LETTERS], Level::Ok, Level::Ok),
            (vec![limit], Level::Ok, Level::Ok),
        ] {
            let made = made(&told);
            assert_eq!((level(&made, Whose::Others), level(&made, Whose::Ours)), (others, ours), "{told:?}");
        }
    }
}

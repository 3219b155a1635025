//! What the span of a delivery says. Pure: the clock, the dice and the network are elsewhere.
//!
//! The names are those of the conventions of OpenTelemetry for messaging. A payload is in no span, only its size.

use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{Link, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use outbox::{Cause, Headers, Judged, Outcome, Verdict, header};

use super::route::Route;

/// A span, before it has times.
pub(super) struct Made {
    /// Its name, kind, attributes and links.
    pub(super) builder: SpanBuilder,
    /// In which context it is made.
    pub(super) parent: Context,
    /// How it went.
    pub(super) status: Status,
}

struct Carrier<'h>(&'h Headers);

impl Extractor for Carrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

/// The context in which the message was written, if it says so, and well.
pub(super) fn context(headers: &Headers) -> Option<SpanContext> {
    let mut parts = headers.get(header::TRACEPARENT)?.trim().split('-').skip(1).map(str::len);
    // The reader of headers is content with fewer digits; whoever else reads them is not.
    if (parts.next(), parts.next()) != (Some(32), Some(16)) {
        return None;
    }
    let found = TraceContextPropagator::new().extract_with_context(&Context::new(), &Carrier(headers));
    let context = found.span().span_context().clone();
    context.is_valid().then_some(context)
}

/// Whoever wrote the message has decided whether it is traced; otherwise the dice do.
pub(super) fn is_sampled(written: Option<&SpanContext>, sample: f64, random: impl FnOnce() -> f64) -> bool {
    written.map_or_else(|| random() < sample, SpanContext::is_sampled)
}

/// The span of a delivery. What is handled belongs to the trace in which it was written. What is only sent on has a
/// trace of its own with a link: it may be sent long after that trace has ended, and again and again.
pub(super) fn of(route: &Route, judged: &Judged<'_>, written: Option<SpanContext>) -> Made {
    let mut builder = SpanBuilder::from_name(route.name())
        .with_kind(route.kind.clone())
        .with_attributes(attributes(route, judged));
    let mut parent = Context::new();
    match written {
        Some(context) if route.kind == SpanKind::Consumer => {
            parent = parent.with_remote_span_context(context)
        }
        Some(context) => builder = builder.with_links(vec![Link::with_context(context)]),
        None => {}
    }
    let status = failure(judged.outcome).map_or(Status::Unset, |cause| Status::error(cause.to_string()));
    Made { builder, parent, status }
}

fn attributes(route: &Route, judged: &Judged<'_>) -> Vec<KeyValue> {
    let message = judged.message;
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let mut all = vec![
        KeyValue::new("messaging.system", route.system),
        KeyValue::new("messaging.operation.name", route.operation),
        KeyValue::new("messaging.operation.type", route.operation),
        KeyValue::new("messaging.destination.name", route.destination(message)),
        KeyValue::new("messaging.message.id", message.id.to_string()),
        KeyValue::new("messaging.message.body.size", number(message.payload.len())),
        KeyValue::new("outboxd.pipe", route.pipe.clone()),
        KeyValue::new("outboxd.message.type", message.kind.clone()),
        KeyValue::new("outboxd.attempt", i64::from(message.attempts) + 1),
        KeyValue::new("outboxd.verdict", word(judged.verdict)),
    ];
    if let Some(key) = route.routing_key(message).filter(|key| !key.is_empty()) {
        all.push(KeyValue::new("messaging.rabbitmq.destination.routing_key", key));
    }
    if let Some(key) = message.key.clone().filter(|_| route.system == "kafka") {
        all.push(KeyValue::new("messaging.kafka.message.key", key));
    }
    if let Some(group) = route.group.clone() {
        all.push(KeyValue::new("messaging.consumer.group.name", group));
    }
    if let Some(id) = message.headers.get(header::CORRELATION_ID).cloned() {
        all.push(KeyValue::new("messaging.message.conversation_id", id));
    }
    if let Some(cause) = failure(judged.outcome) {
        all.push(KeyValue::new("error.type", cause.code.to_string()));
    }
    all
}

fn failure(outcome: &Outcome) -> Option<&Cause> {
    match outcome {
        Outcome::Delivered => None,
        Outcome::Rejected(rejection) => Some(&rejection.cause),
        Outcome::Unavailable(cause) => Some(cause),
    }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Done => "done",
        Verdict::Retry { .. } => "retry",
        Verdict::Dead { .. } => "dead",
        Verdict::Behind => "behind",
        Verdict::Released => "released",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use opentelemetry::Value;
    use outbox::{Message, code};

    use super::*;
    use crate::plan::Plan;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn route(sinks: &str, from: &str, to: &str) -> Route {
        let text = format!(
            "[connections]\nshop = \"sqlite:shop.db\"\nrabbit = \"amqp://localhost\"\nkafka = \"kafka://localhost\"\n\
             [sources.orders]\non = \"shop\"\n[sources.work]\non = \"rabbit\"\nqueue = \"notifications\"\n{sinks}\n\
             [pipes.relay]\nfrom = \"{from}\"\nto = \"{to}\"\n"
        );
        let plan = Plan::parse(Path::new("/srv/outboxd.toml"), &text, &|_| None).expect("it is valid").plan;
        Route::of(&plan.pipes["relay"], &plan)
    }

    const EXCHANGE: &str =
        "[sinks.events]\non = \"rabbit\"\nexchange = \"shop.events\"\nrouting_key = \"shop.{type}\"";

    fn made(route: &Route, message: &Message, outcome: &Outcome, verdict: &Verdict) -> Made {
        let judged = Judged { message, outcome, verdict, took: Duration::from_millis(5) };
        of(route, &judged, context(&message.headers))
    }

    fn value(made: &Made, name: &str) -> Option<Value> {
        let attributes = made.builder.attributes.as_ref().expect("there are some");
        attributes.iter().find(|one| one.key.as_str() == name).map(|one| one.value.clone())
    }

    fn order() -> Message {
        Message::new("order.created", "canary").key("42").header(header::TRACEPARENT, PARENT)
    }

    #[test]
    fn e5_what_is_sent_links_to_the_context_of_its_writer() {
        let route = route(EXCHANGE, "orders", "events");
        let message = order().correlation("c-1");
        let made = made(&route, &message, &Outcome::Delivered, &Verdict::Done);
        assert_eq!(made.builder.name, "send shop.events");
        assert_eq!(made.builder.span_kind, Some(SpanKind::Producer));
        assert!(!made.parent.span().span_context().is_valid(), "it has a trace of its own");
        let [link] = &made.builder.links.as_ref().expect("there are links")[..] else { panic!("one link") };
        assert_eq!(link.span_context.trace_id().to_string(), TRACE);
        for (name, expected) in [
            ("messaging.system", "rabbitmq"),
            ("messaging.operation.name", "send"),
            ("messaging.operation.type", "send"),
            ("messaging.destination.name", "shop.events"),
            ("messaging.rabbitmq.destination.routing_key", "shop.order.created"),
            ("messaging.message.id", message.id.as_str()),
            ("messaging.message.conversation_id", "c-1"),
            ("outboxd.pipe", "relay"),
            ("outboxd.verdict", "done"),
        ] {
            assert_eq!(
                value(&made, name).map(|value| value.to_string()).as_deref(),
                Some(expected),
                "{name}"
            );
        }
        assert_eq!(value(&made, "outboxd.attempt"), Some(Value::I64(1)));
        assert_eq!((value(&made, "error.type"), &made.status), (None, &Status::Unset));
        assert!(!format!("{:?}", made.builder).contains("canary"), "the payload is nobody's business");
    }

    #[test]
    fn e5_what_is_handled_belongs_to_the_trace_of_its_writer() {
        let route = route("[sinks.screen]\nstdout = true", "work", "screen");
        let made = made(&route, &order(), &Outcome::Delivered, &Verdict::Done);
        assert_eq!(made.builder.name, "process notifications");
        assert_eq!(made.builder.span_kind, Some(SpanKind::Consumer));
        assert_eq!(made.parent.span().span_context().trace_id().to_string(), TRACE);
        assert!(made.builder.links.is_none());
    }

    #[test]
    fn e5_a_failure_has_its_code_and_the_attempt() {
        let route = route(EXCHANGE, "orders", "events");
        let mut message = order();
        message.attempts = 2;
        let cause = Cause::new(code::NO_ROUTE, "no queue is bound");
        let verdict = Verdict::Dead { attempts: 3, cause: cause.clone(), holds: true };
        let made = made(&route, &message, &Outcome::rejected(cause), &verdict);
        assert_eq!(made.status, Status::error("NO_ROUTE: no queue is bound"));
        assert_eq!(value(&made, "error.type"), Some("NO_ROUTE".into()));
        assert_eq!(value(&made, "outboxd.attempt"), Some(Value::I64(3)));
        assert_eq!(value(&made, "outboxd.verdict"), Some("dead".into()));
    }

    #[test]
    fn e5_of_a_topic_by_a_template_the_name_is_the_template() {
        let topic = "[sinks.events]\non = \"kafka\"\ntopic = \"shop.{type}\"";
        let route = route(topic, "orders", "events");
        let made = made(&route, &order(), &Outcome::Delivered, &Verdict::Done);
        assert_eq!(made.builder.name, "send shop.{type}");
        assert_eq!(value(&made, "messaging.destination.name"), Some("shop.order.created".into()));
        assert_eq!(value(&made, "messaging.kafka.message.key"), Some("42".into()));
    }

    #[test]
    fn e5_a_context_that_is_missing_or_broken_is_none() {
        let parent = |text: &str| context(&Headers::from([("traceparent".to_owned(), text.to_owned())]));
        assert!(context(&Headers::new()).is_none());
        for broken in [
            "",
            "canary",
            "00-1-2-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        ] {
            assert!(parent(broken).is_none(), "{broken}");
        }
        assert_eq!(parent(PARENT).expect("it is whole").trace_id().to_string(), TRACE);
        let message = Message::new("a", "").header(header::TRACEPARENT, "broken");
        let made = made(&route(EXCHANGE, "orders", "events"), &message, &Outcome::Delivered, &Verdict::Done);
        assert!(made.builder.links.is_none(), "it is the root of a trace");
    }

    #[test]
    fn e5_the_writer_decides_about_sampling_and_the_dice_where_he_does_not() {
        let written = |flags: &str| {
            let text = format!("00-{TRACE}-b7ad6b7169203331-{flags}");
            context(&Headers::from([("traceparent".to_owned(), text)]))
        };
        let never = || -> f64 { panic!("it was decided") };
        assert!(is_sampled(written("01").as_ref(), 0.0, never));
        assert!(!is_sampled(written("00").as_ref(), 1.0, never));
        assert!(is_sampled(None, 0.5, || 0.49));
        assert!(!is_sampled(None, 0.5, || 0.5));
        assert!(!is_sampled(None, 0.0, || 0.0));
        assert!(is_sampled(None, 1.0, || 0.999_999));
    }
}

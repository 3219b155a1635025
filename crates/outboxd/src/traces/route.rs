//! Where a pipe leads, in the words of the conventions for messaging.

use opentelemetry::trace::SpanKind;
use outbox::{Message, Template};

use crate::plan::{Layout, PipePlan, Plan, SinkPlan, SourcePlan, Target};

/// What all spans of a pipe have in common.
#[derive(Debug)]
pub(super) struct Route {
    /// The pipe.
    pub(super) pipe: String,
    /// `rabbitmq`, `kafka`, or ourselves where there is no broker.
    pub(super) system: &'static str,
    /// Whether messages are sent or handled.
    pub(super) kind: SpanKind,
    /// The word for that.
    pub(super) operation: &'static str,
    /// The consumer group, of Kafka.
    pub(super) group: Option<String>,
    destination: Destination,
}

/// Where a message goes to, or came from.
#[derive(Debug)]
enum Destination {
    /// The same for all: a queue, a sink without a broker.
    Fixed(String),
    /// An exchange, with the routing key of each message.
    Exchange(String, Option<Template>),
    /// A topic by a template, and what all have in common: the template.
    Topic(Option<Template>, String),
}

impl Route {
    pub(super) fn of(pipe: &PipePlan, plan: &Plan) -> Self {
        let (source, sink) = (&plan.sources[&pipe.from], &plan.sinks[&pipe.to]);
        let name = pipe.name.clone();
        if source.is_on_broker() { Self::from_broker(name, source) } else { Self::to_sink(name, sink) }
    }

    fn from_broker(pipe: String, source: &SourcePlan) -> Self {
        let (system, destination, group) = match &source.layout {
            Layout::Queue(options) => ("rabbitmq", options.queue.clone(), None),
            // A record does not say which of several it came from.
            Layout::Topic(options) => ("kafka", options.topics.join(","), Some(options.group.clone())),
            Layout::Log(_) | Layout::Table(_) => (OWN, source.name.clone(), None),
        };
        let destination = Destination::Fixed(destination);
        Self { pipe, system, kind: SpanKind::Consumer, operation: "process", group, destination }
    }

    fn to_sink(pipe: String, sink: &SinkPlan) -> Self {
        let (system, destination) = match &sink.target {
            Target::Exchange(_, options) => {
                let key = Template::parse(&options.routing_key).ok();
                ("rabbitmq", Destination::Exchange(options.exchange.clone(), key))
            }
            Target::Topic(_, options) => {
                ("kafka", Destination::Topic(Template::parse(&options.topic).ok(), options.topic.clone()))
            }
            _ => (OWN, Destination::Fixed(sink.name.clone())),
        };
        Self { pipe, system, kind: SpanKind::Producer, operation: "send", group: None, destination }
    }

    /// The name of a span, of which there must be few: not of every topic that a template makes.
    pub(super) fn name(&self) -> String {
        let destination = match &self.destination {
            Destination::Fixed(name) | Destination::Exchange(name, _) => name,
            Destination::Topic(_, template) => template,
        };
        format!("{} {destination}", self.operation)
    }

    /// Where this message goes to, or came from.
    pub(super) fn destination(&self, message: &Message) -> String {
        match &self.destination {
            Destination::Fixed(name) | Destination::Exchange(name, _) => name.clone(),
            Destination::Topic(template, text) => render(template.as_ref(), message).unwrap_or(text.clone()),
        }
    }

    /// The routing key of this message, where there is one.
    pub(super) fn routing_key(&self, message: &Message) -> Option<String> {
        let Destination::Exchange(_, template) = &self.destination else { return None };
        render(template.as_ref(), message)
    }
}

/// The system where no broker is involved.
const OWN: &str = "outboxd";

/// A message that lacks something of the template is told so by its sink.
fn render(template: Option<&Template>, message: &Message) -> Option<String> {
    template?.render(message).ok().map(std::borrow::Cow::into_owned)
}

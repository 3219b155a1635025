//! A look at a broker: whether we get in, and whether exchange and queues are there and as configured.
//!
//! Nothing is made. What is there is declared once more as it is configured: to the broker that is a question, which
//! it answers with an error if the two differ. Bindings cannot be asked for: [`Exchange::probe`] finds out.

use std::sync::Arc;

use lapin::ExchangeKind as Kind;
use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::FieldTable;

use super::ask::{Answer, Asking};
use super::config::{ExchangeConfig, ExchangeKind, QueueConfig, Topology};
use super::connection::Link;
use super::declare::{declare_exchange, short};
use super::error::into_error;
use super::keeping::{self, Whose};
use super::sink::Exchange;
use super::source::WorkQueue;
use super::topology;
use crate::error::Result;
use crate::finding::{Finding, Level};
use crate::message::Message;
use crate::sink::{Outcome, Sink, code};
use crate::template::Template;

/// The type of a message that is sent to see where it goes.
pub const PROBE: &str = "outboxd.probe";

impl Exchange {
    /// Looks at the broker, the exchange and the queues, and makes none of them.
    pub async fn examine(url: &str, config: &ExchangeConfig) -> Vec<Finding> {
        let link = match config.check().and_then(|()| bare(url, config)) {
            Ok(link) => link,
            Err(error) => return vec![Finding::error("connection", &error)],
        };
        let session = match link.session().await {
            Ok(session) => session,
            Err(cause) => return vec![Finding::error("connection", &into_error(&cause))],
        };
        let mut findings = vec![Finding::ok("connection", format!("logged in to {}", link.shown()))];
        let asking = Asking { link: &link, session: &session, limit: config.connect_timeout };
        let alarm = asking.alarm().await;
        let is_blocked = alarm.level == Level::Failure;
        findings.push(alarm);
        // Who is blocked is not answered.
        if is_blocked {
            return findings;
        }
        let look = Look { asking, config };
        findings.extend(look.exchange().await);
        for queue in &config.queues {
            let found = look.queue(queue).await;
            let is_well = found.level == Level::Ok;
            findings.push(found);
            if is_well {
                findings.extend(keeping::examine(asking, &queue.name, Whose::Others).await);
            }
        }
        findings
    }

    /// Sends one message of type [`PROBE`] with this routing key, as any message is sent, and tells whether a queue
    /// took it. It stays in that queue until its consumer takes it.
    pub async fn probe(url: &str, config: &ExchangeConfig, routing_key: &str) -> Finding {
        const WHAT: &str = "route";
        let place = format!("routing key '{routing_key}' at exchange '{}'", config.exchange);
        let told = async {
            let mut config = config.clone();
            // A probe makes nothing.
            config.topology = Topology::Check;
            config.queues.clear();
            // Headers may be made of what a probe lacks; only one kind of exchange goes by them.
            if config.kind != ExchangeKind::Headers {
                config.headers.clear();
            }
            config.routing_key = Template::parse(&routing_key.replace('{', "{{").replace('}', "}}"))?;
            let message = Message::json(PROBE, &serde_json::json!({ "probe": true }))?;
            Ok(Self::new(url, config)?.deliver(&[message]).await.pop())
        };
        match told.await {
            Err(error) => Finding::error(WHAT, &error),
            Ok(Some(Outcome::Delivered)) => {
                Finding::ok(WHAT, format!("{place}: a probe was taken by a queue"))
            }
            Ok(Some(Outcome::Rejected(rejection))) if rejection.cause.code == code::NO_ROUTE => {
                Finding::failure(WHAT, format!("{place}: no queue is bound for it"))
                    .fix(format!("queues = [{{ name = \"QUEUE\", keys = [{routing_key:?}] }}]"))
            }
            Ok(Some(Outcome::Rejected(rejection))) => {
                Finding::failure(WHAT, format!("{place}: {}", rejection.cause))
            }
            Ok(Some(Outcome::Unavailable(cause)))
                if cause.code == code::NO_EXCHANGE && config.topology == Topology::Declare =>
            {
                Finding::warning(WHAT, format!("{place}: not probed, for the exchange is not there yet"))
                    .fix("start the pipe, which makes it, and probe again")
            }
            Ok(Some(Outcome::Unavailable(cause))) => Finding::failure(WHAT, format!("{place}: {cause}")),
            Ok(None) => Finding::failure(WHAT, format!("{place}: nothing came of the probe")),
        }
    }
}

impl WorkQueue {
    /// Looks closer at a broker and at the queues of this source, which must be there: [`WorkQueue::check`] tells
    /// whether they are. It makes nothing.
    pub async fn examine(&self) -> Vec<Finding> {
        let Ok(session) = self.link.session().await else { return Vec::new() };
        let asking = Asking { link: &self.link, session: &session, limit: self.config.connect_timeout };
        let mut findings = vec![asking.alarm().await];
        if findings.iter().any(|finding| finding.level == Level::Failure) {
            return findings;
        }
        for queue in [&self.config.queue, &self.config.dead] {
            let whose = if *queue == self.config.queue { Whose::Ours } else { Whose::Others };
            findings.extend(keeping::examine(asking, queue, whose).await);
        }
        findings
    }
}

/// A way to the broker on which nothing is declared.
fn bare(url: &str, config: &ExchangeConfig) -> Result<Link> {
    let mut config = config.clone();
    config.exchange.clear();
    config.queues.clear();
    config.topology = Topology::Check;
    Link::new(url, Arc::new(config))
}

struct Look<'a> {
    asking: Asking<'a>,
    config: &'a ExchangeConfig,
}

impl Look<'_> {
    async fn exchange(&self) -> Vec<Finding> {
        let name = &self.config.exchange;
        let what = "exchange";
        if name.is_empty() {
            return vec![Finding::ok(what, "the default exchange, which is always there")];
        }
        let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let is_there = self
            .asking
            .ask(async |channel| {
                let (name, none) = (short(name), FieldTable::default());
                channel.exchange_declare(name, Kind::Topic, passive, none).await
            })
            .await;
        if let Err(answer) = is_there {
            return vec![self.missing(what, name, answer)];
        }
        let same = self
            .asking
            .ask(async |channel| declare_exchange(channel, name, self.config.kind, false).await)
            .await;
        vec![self.compared(what, name, same, String::new())]
    }

    async fn queue(&self, queue: &QueueConfig) -> Finding {
        let (what, name) = ("queue", &queue.name);
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let is_there = self
            .asking
            .ask(async |channel| channel.queue_declare(short(name), passive, FieldTable::default()).await)
            .await;
        let state = match is_there {
            Ok(state) => state,
            Err(answer) => return self.missing(what, name, answer),
        };
        let (messages, consumers) = (state.message_count(), state.consumer_count());
        let holds = format!(", {messages} messages, {consumers} consumers");
        // Who only checks takes a queue as it is.
        if self.config.topology == Topology::Check {
            return Finding::ok(what, format!("'{name}' is there{holds}"));
        }
        let mut is_its_readers = false;
        let same = self
            .asking
            .ask(async |channel| {
                let made = queue.make().on(channel).await;
                is_its_readers = made.as_ref().is_err_and(topology::is_its_readers);
                made
            })
            .await;
        if is_its_readers {
            return Finding::ok(what, format!("'{name}' is there, with arguments of its own{holds}"));
        }
        self.compared(what, name, same, holds)
    }

    fn missing(&self, what: &str, name: &str, answer: Answer) -> Finding {
        match (answer, self.config.topology) {
            (Answer::Missing, Topology::Declare) => {
                Finding::ok(what, format!("'{name}' is not there yet: the pipe makes it when it connects"))
            }
            (Answer::Missing, Topology::Check) => Finding::failure(what, format!("'{name}' does not exist"))
                .fix("create it, or let it be declared: topology = \"declare\""),
            (Answer::Denied(text) | Answer::Differs(text) | Answer::Error(text), _) => {
                Finding::failure(what, format!("'{name}': {text}"))
                    .fix("check user, password and permissions")
            }
        }
    }

    /// What comes of declaring once more what is there.
    fn compared(&self, what: &str, name: &str, same: Result<(), Answer>, holds: String) -> Finding {
        let level = match (&same, self.config.topology) {
            (Ok(()), _) => return Finding::ok(what, format!("'{name}' is there and as configured{holds}")),
            // Who may not declare cannot ask, and does not need to if it only checks.
            (Err(Answer::Denied(_)), Topology::Check) => {
                let evidence = format!("'{name}' is there; this user may not ask what kind it is{holds}");
                return Finding::ok(what, evidence);
            }
            (Err(Answer::Differs(_)), Topology::Check) => Level::Warning,
            _ => Level::Failure,
        };
        let text = match same {
            Err(Answer::Differs(text)) => format!("'{name}' is not as configured: {text}"),
            Err(Answer::Denied(text)) => format!("'{name}' cannot be declared: {text}"),
            Err(Answer::Error(text)) => format!("'{name}': {text}"),
            _ => format!("'{name}' has gone while it was looked at"),
        };
        let fix = "change the configuration, or the broker; or only check it: topology = \"check\"";
        Finding { level, ..Finding::failure(what, text).fix(fix) }
    }
}

//! The sinks of a plan: each leads to something that takes messages.

use std::path::PathBuf;
use std::time::Duration;

use super::{Checker, Known};
use crate::backends;
use crate::config::{SinkConfig, TargetConfig, TemplateConfig};
use crate::connection::{Connection, Kind};
use crate::mistake::At;
use crate::options::{ExchangeOptions, TopicOptions};

/// A place to send to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkPlan {
    /// Its name.
    pub name: String,
    /// Where it leads.
    pub target: Target,
}

/// Where a sink leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An exchange of RabbitMQ.
    Exchange(Connection, ExchangeOptions),
    /// A topic of Kafka.
    Topic(Connection, TopicOptions),
    /// Standard output.
    Stdout,
    /// A file.
    File(PathBuf),
}

impl Target {
    /// How long a delivery may take and what a payload may weigh, if that is limited.
    pub fn limits(&self) -> Option<(Duration, usize)> {
        match self {
            Self::Exchange(_, options) => Some((options.timeout, options.max_message)),
            Self::Topic(_, options) => Some((options.timeout, options.max_message)),
            Self::Stdout | Self::File(_) => None,
        }
    }
}

impl Checker<'_> {
    pub(super) fn sinks(&self, configs: Vec<SinkConfig>, connections: &Known<Connection>) -> Known<SinkPlan> {
        let mut sinks: Known<SinkPlan> = Known::new();
        for config in configs {
            self.name("sinks", &config.name);
            let name = config.name.value;
            let target = config.target.and_then(|target| self.target(&name, target, connections, &sinks));
            let plan = target.map(|target| SinkPlan { name: name.clone(), target });
            sinks.insert(name, plan);
        }
        sinks
    }

    fn target(
        &self,
        name: &str,
        target: TargetConfig,
        connections: &Known<Connection>,
        sinks: &Known<SinkPlan>,
    ) -> Option<Target> {
        let whose = format!("sinks.{name}");
        match target {
            TargetConfig::Stdout => Some(Target::Stdout),
            TargetConfig::File(path) => {
                let taken =
                    |other: &&SinkPlan| matches!(&other.target, Target::File(file) if *file == path.value);
                if let Some(other) = sinks.values().flatten().find(taken) {
                    let what = format!("{whose}.file: '{}' writes to this file already", other.name);
                    self.mistakes.note(path.place, what, "let both pipes lead to the one sink");
                }
                Some(Target::File(path.value))
            }
            TargetConfig::Exchange { on, options, templates } => {
                self.templates(&whose, &templates);
                // What is wrong with a header is told only when all else is well: its template, first of all.
                if let Some(header) = templates.iter().find(|template| template.key.starts_with("headers."))
                    && templates.iter().all(|template| backends::check_template(&template.text).is_ok())
                    && let Err(rule) = backends::check_exchange(&options)
                {
                    self.mistakes.note(
                        header.place,
                        format!("{whose}.headers: {rule}"),
                        "rename or remove the header",
                    );
                }
                let connection = self.broker(&whose, &on, connections, Kind::Amqp, "exchange")?;
                Some(Target::Exchange(connection, options))
            }
            TargetConfig::Topic { on, options, templates } => {
                self.templates(&whose, &templates);
                if let Some(topic) = templates.iter().find(|template| template.key == "topic")
                    && let Err(rule) = backends::check_topic(&topic.text)
                {
                    let what = format!("{whose}.topic = \"{}\": {rule}", topic.text);
                    let help = "a topic has 1 to 249 letters, digits, '.', '_' and '-'";
                    self.mistakes.note(topic.place, what, help);
                }
                let connection = self.broker(&whose, &on, connections, Kind::Kafka, "topic")?;
                Some(Target::Topic(connection, options))
            }
        }
    }

    fn templates(&self, whose: &str, templates: &[TemplateConfig]) {
        for TemplateConfig { key, text, place } in templates {
            if let Err(rule) = backends::check_template(text) {
                let what = format!("{whose}.{key} = \"{text}\": {rule}");
                self.mistakes.note(*place, what, backends::TEMPLATE_HELP);
            }
        }
    }

    /// The connection of a sink, which must be of the kind that has such a thing.
    fn broker(
        &self,
        whose: &str,
        on: &At<String>,
        connections: &Known<Connection>,
        wanted: Kind,
        noun: &str,
    ) -> Option<Connection> {
        let connection = self.find(whose, "on", on, connections, "connection")?;
        if connection.kind == wanted {
            return Some(connection.clone());
        }
        let (rule, help) = match connection.kind {
            Kind::Amqp => {
                ("RabbitMQ has no topics".to_owned(), "write exchange = \"…\", or name a kafka: connection")
            }
            Kind::Kafka => {
                ("Kafka has no exchanges".to_owned(), "write topic = \"…\", or name an amqp: connection")
            }
            Kind::Sqlite | Kind::Postgres | Kind::MySql => (
                format!("a {} database is no sink", connection.kind.as_str()),
                if noun == "topic" {
                    "name a kafka: connection, or use stdout or file"
                } else {
                    "name an amqp: connection, or use stdout or file"
                },
            ),
        };
        self.mistakes.note(on.place, format!("{whose}.on = \"{}\": {rule}", on.value), help);
        None
    }
}

#[cfg(test)]
#[path = "sink_tests.rs"]
mod tests;

//! The sinks of a plan: each leads to something that takes messages.

use std::path::PathBuf;
use std::time::Duration;

use super::handler::are_templates;
use super::{Checker, InboxPlan, Known};
use crate::backends;
use crate::config::{SinkConfig, TargetConfig, TemplateConfig};
use crate::connection::{Connection, Kind};
use crate::mistake::At;
use crate::options::{
    EndpointOptions, ErrorLogOptions, ExchangeOptions, MailOptions, MeterOptions, StatementOptions,
    TopicOptions,
};

/// A place to send to.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkPlan {
    /// Its name.
    pub name: String,
    /// Where it leads.
    pub target: Target,
    /// The inbox before it: each pipe is a consumer of its own.
    pub inbox: Option<InboxPlan>,
}

/// Where a sink leads.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// An exchange of RabbitMQ.
    Exchange(Connection, ExchangeOptions),
    /// A topic of Kafka.
    Topic(Connection, TopicOptions),
    /// An HTTP endpoint.
    Http(Box<EndpointOptions>),
    /// Statements in a database.
    Sql(Connection, StatementOptions),
    /// E-mail.
    Mail(Connection, Box<MailOptions>),
    /// Figures on the metrics endpoint.
    Metrics(Vec<MeterOptions>),
    /// A table of errors in a database.
    ErrorLog(Connection, ErrorLogOptions),
    /// Standard output.
    Stdout,
    /// A file.
    File(PathBuf),
}

impl Target {
    /// How long a delivery may take, if that is limited.
    pub fn timeout(&self) -> Option<Duration> {
        match self {
            Self::Exchange(_, options) => Some(options.timeout),
            Self::Topic(_, options) => Some(options.timeout),
            Self::Http(options) => Some(options.timeout),
            Self::Sql(_, options) => Some(options.timeout),
            Self::Mail(_, options) => Some(options.timeout),
            Self::Metrics(_) | Self::ErrorLog(..) | Self::Stdout | Self::File(_) => None,
        }
    }

    /// What a payload may weigh, if that is limited.
    pub fn max_message(&self) -> Option<usize> {
        match self {
            Self::Exchange(_, options) => Some(options.max_message),
            Self::Topic(_, options) => Some(options.max_message),
            _ => None,
        }
    }

    /// The connection that it goes through, if it has one.
    pub fn connection(&self) -> Option<&Connection> {
        match self {
            Self::Exchange(connection, _)
            | Self::Topic(connection, _)
            | Self::Sql(connection, _)
            | Self::Mail(connection, _)
            | Self::ErrorLog(connection, _) => Some(connection),
            Self::Http(_) | Self::Metrics(_) | Self::Stdout | Self::File(_) => None,
        }
    }
}

impl Checker<'_> {
    pub(super) fn sinks(&self, configs: Vec<SinkConfig>, connections: &Known<Connection>) -> Known<SinkPlan> {
        let mut sinks: Known<SinkPlan> = Known::new();
        for config in configs {
            self.name("sinks", &config.name);
            let name = config.name.value;
            let whose = format!("sinks.{name}");
            self.templates(&whose, &config.templates);
            let target = config
                .target
                .and_then(|target| self.target(&whose, target, &config.templates, connections, &sinks));
            let plan = match (target, config.inbox) {
                (None, inbox) => {
                    // Looked at all the same, so that its mistakes are told too.
                    inbox.map(|inbox| self.inbox(&whose, inbox, None, connections));
                    None
                }
                (Some(target), None) => Some((target, None)),
                (Some(target), Some(inbox)) => {
                    let own = target.connection().filter(|_| matches!(target, Target::Sql(..)));
                    let inbox = self.inbox(&whose, inbox, own, connections);
                    inbox.map(|inbox| (target, Some(inbox)))
                }
            };
            let plan = plan.map(|(target, inbox)| SinkPlan { name: name.clone(), target, inbox });
            sinks.insert(name, plan);
        }
        sinks
    }

    fn target(
        &self,
        whose: &str,
        target: TargetConfig,
        templates: &[TemplateConfig],
        connections: &Known<Connection>,
        sinks: &Known<SinkPlan>,
    ) -> Option<Target> {
        let on = |on: &At<String>, noun: Noun| self.connection_of(whose, on, connections, noun);
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
            TargetConfig::Exchange { on: name, options } => {
                self.exchange(whose, &options, templates);
                Some(Target::Exchange(on(&name, Noun::Exchange)?, options))
            }
            TargetConfig::Topic { on: name, options } => {
                if let Some(topic) = templates.iter().find(|template| template.key == "topic")
                    && let Err(rule) = backends::check_topic(&topic.text)
                {
                    let what = format!("{whose}.topic = \"{}\": {rule}", topic.text);
                    let help = "a topic has 1 to 249 letters, digits, '.', '_' and '-'";
                    self.mistakes.note(topic.place, what, help);
                }
                Some(Target::Topic(on(&name, Noun::Topic)?, options))
            }
            TargetConfig::Http { options, place, secret_place } => {
                self.endpoint(whose, &options, templates, place, secret_place);
                Some(Target::Http(options))
            }
            TargetConfig::Sql { on: name, options, place } => {
                let connection = on(&name, Noun::Sql)?;
                self.statements(whose, connection.kind, &options, place);
                Some(Target::Sql(connection, options))
            }
            TargetConfig::Mail { on: name, options } => {
                self.mail(whose, &options, templates, name.place);
                Some(Target::Mail(on(&name, Noun::Mail)?, options))
            }
            TargetConfig::ErrorLog { on: name, options, place } => {
                self.error_log(whose, &options, place);
                Some(Target::ErrorLog(on(&name, Noun::ErrorLog)?, options))
            }
            TargetConfig::Metrics { meters } => {
                self.figures(whose, &meters, templates, sinks);
                Some(Target::Metrics(meters.into_iter().map(|meter| meter.value).collect()))
            }
        }
    }

    /// What is wrong with a header is told only when all else is well: its template, first of all.
    fn exchange(&self, whose: &str, options: &ExchangeOptions, templates: &[TemplateConfig]) {
        if let Some(header) = templates.iter().find(|template| template.key.starts_with("headers."))
            && are_templates(templates)
            && let Err(rule) = backends::check_exchange(options)
        {
            let what = format!("{whose}.headers: {rule}");
            self.mistakes.note(header.place, what, "rename or remove the header");
        }
    }

    fn templates(&self, whose: &str, templates: &[TemplateConfig]) {
        for template in templates {
            let TemplateConfig { key, text, place } = template;
            if let Err(rule) = backends::check_template(text) {
                let what = if template.is_secret() {
                    // The rule quotes the template, and with it perhaps a secret.
                    format!("{whose}.{key}: is no template")
                } else {
                    let shown: String = text.chars().take(80).collect();
                    format!("{whose}.{key} = \"{shown}\": {rule}")
                };
                self.mistakes.note(*place, what, backends::TEMPLATE_HELP);
            }
        }
    }

    /// The connection of a sink, which must be of a kind that has such a thing.
    fn connection_of(
        &self,
        whose: &str,
        on: &At<String>,
        connections: &Known<Connection>,
        noun: Noun,
    ) -> Option<Connection> {
        let connection = self.find(whose, "on", on, connections, "connection")?;
        if noun.fits(connection.kind) {
            return Some(connection.clone());
        }
        let (rule, help) = noun.misfit(connection.kind);
        self.mistakes.note(on.place, format!("{whose}.on = \"{}\": {rule}", on.value), help);
        None
    }
}

/// What a sink is on its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Noun {
    Exchange,
    Topic,
    Sql,
    ErrorLog,
    Mail,
}

impl Noun {
    fn fits(self, kind: Kind) -> bool {
        match self {
            Self::Exchange => kind == Kind::Amqp,
            Self::Topic => kind == Kind::Kafka,
            Self::Sql | Self::ErrorLog => kind.is_database(),
            Self::Mail => kind == Kind::Smtp,
        }
    }

    /// What is wrong with a connection of another kind, and what to do.
    fn misfit(self, kind: Kind) -> (String, &'static str) {
        let help = match (self, kind) {
            (Self::Exchange, Kind::Kafka) => "write topic = \"…\", or name an amqp: connection",
            (Self::Topic, Kind::Amqp) => "write exchange = \"…\", or name a kafka: connection",
            (Self::Exchange, _) => "name an amqp: connection, or use sql, stdout or file",
            (Self::Topic, _) => "name a kafka: connection, or use sql, stdout or file",
            (Self::Sql | Self::ErrorLog, _) => "name a sqlite:, postgres: or mysql: connection",
            (Self::Mail, _) => "name an smtp: or smtps: connection",
        };
        let rule = match (self, kind) {
            (Self::Topic, Kind::Amqp) => "RabbitMQ has no topics".to_owned(),
            (Self::Exchange, Kind::Kafka) => "Kafka has no exchanges".to_owned(),
            (Self::Exchange | Self::Topic, Kind::Smtp) => "a mail server is no broker".to_owned(),
            (Self::Exchange, _) => format!("a {} database has no exchanges", kind.as_str()),
            (Self::Topic, _) => format!("a {} database has no topics", kind.as_str()),
            (Self::Sql | Self::ErrorLog, _) => format!("is no database, but {}", kind.as_str()),
            (Self::Mail, _) => format!("is no mail server, but {}", kind.as_str()),
        };
        (rule, help)
    }
}

#[cfg(test)]
#[path = "sink_tests.rs"]
mod tests;

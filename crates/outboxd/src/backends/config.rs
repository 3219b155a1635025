//! What the options of the configuration mean to the library.

use outbox::errors::ErrorTable;
use outbox::http::{EndpointConfig, Secret};
use outbox::kafka::{self, GroupConfig, TopicConfig};
use outbox::meter::{Meter, MeterConfig};
use outbox::rabbitmq::{self, Binding, ExchangeConfig, QueueConfig, WorkQueueConfig};
use outbox::smtp::MailConfig;
use outbox::sql::{self, Statements};
use outbox::template::Template;
use outbox::{Error, ErrorKind, InboxTable, Result};

use crate::connection::Kind;
use crate::options::{
    EndpointOptions, ErrorTableOptions, ExchangeKind, ExchangeOptions, GroupOptions, InboxTableOptions,
    MailOptions, MeterOptions, QueueKind, Start, StatementOptions, TemplateOptions, TopicOptions, Topology,
    WorkQueueOptions,
};

/// What the options of an exchange mean to its sink.
pub fn exchange_config(options: &ExchangeOptions) -> Result<ExchangeConfig> {
    let mut config = ExchangeConfig::new(&options.exchange);
    config.kind = exchange_kind(options.kind);
    config.topology = topology(options.topology);
    let queues = options.queues.iter().map(|queue| {
        let mut made = QueueConfig::new(&queue.name, queue.keys.iter().cloned());
        made.arguments.clone_from(&queue.arguments);
        if queue.kind == QueueKind::Quorum { made.quorum() } else { made }
    });
    config.queues = queues.collect();
    config.routing_key = Template::parse(&options.routing_key)?;
    config.headers = headers(&options.headers)?;
    config.timeout = options.timeout;
    config.max_message = options.max_message;
    Ok(config)
}

fn headers(options: &[TemplateOptions]) -> Result<Vec<(String, Template)>> {
    options.iter().map(|header| Ok((header.name.clone(), Template::parse(&header.template)?))).collect()
}

/// What the options of a topic mean to its sink.
pub fn topic_config(options: &TopicOptions) -> Result<TopicConfig> {
    let mut config = TopicConfig::new(Template::parse(&options.topic)?);
    config.headers = headers(&options.headers)?;
    config.compression = options.compression;
    config.timeout = options.timeout;
    config.max_message = options.max_message;
    config.ca_file.clone_from(&options.ca_file);
    Ok(config)
}

/// What the options of a queue mean to its source.
pub fn work_queue_config(options: &WorkQueueOptions) -> WorkQueueConfig {
    let mut config = WorkQueueConfig::new(&options.queue);
    config.kind = queue_kind(options.kind);
    config.topology = topology(options.topology);
    let bind = options.bind.iter().map(|bind| Binding {
        exchange: bind.exchange.clone(),
        kind: exchange_kind(bind.kind),
        keys: bind.keys.clone(),
    });
    config.bind = bind.collect();
    config.retry.clone_from(&options.retry);
    config.dead.clone_from(&options.dead);
    config.prefetch = options.prefetch.unwrap_or(config.prefetch);
    config.single_active = options.single_active;
    config.arguments.clone_from(&options.arguments);
    config.dead_arguments.clone_from(&options.dead_arguments);
    config.picks = options.form.picks.clone();
    config.max_payload = options.form.max_payload;
    config
}

/// What the options of topics mean to their source.
pub fn group_config(options: &GroupOptions) -> GroupConfig {
    let mut config = GroupConfig::new("", &options.group);
    config.topics.clone_from(&options.topics);
    config.retry.clone_from(&options.retry);
    config.dead.clone_from(&options.dead);
    config.topology = match options.topology {
        Topology::Declare => kafka::Topology::Declare,
        Topology::Check => kafka::Topology::Check,
    };
    config.start = match options.start {
        Start::Beginning => outbox::Start::Beginning,
        Start::Now => outbox::Start::Now,
    };
    config.picks = options.form.picks.clone();
    config.max_payload = options.form.max_payload;
    config.ca_file.clone_from(&options.ca_file);
    config.session_timeout = options.session_timeout;
    config
}

/// What the options of an endpoint mean to its sink.
pub fn endpoint_config(options: &EndpointOptions) -> Result<EndpointConfig> {
    let mut config = EndpointConfig::new(options.url.reveal());
    config.secrets =
        options.secrets.iter().map(|secret| Secret::parse(secret.reveal())).collect::<Result<_>>()?;
    config.headers = headers(&options.headers)?;
    config.timeout = options.timeout;
    config.private = options.private;
    config.plaintext = options.plaintext;
    config.ca_file.clone_from(&options.ca_file);
    Ok(config)
}

/// What statements mean in the SQL of this kind of database.
pub fn statements(kind: Kind, options: &StatementOptions) -> Result<Statements> {
    let dialect = match kind {
        Kind::Postgres => sql::Kind::Postgres,
        Kind::MySql => sql::Kind::MySql,
        Kind::Sqlite => sql::Kind::Sqlite,
        Kind::Amqp | Kind::Kafka | Kind::Smtp => {
            return Err(Error::new(ErrorKind::Config, "this is no connection to a database"));
        }
    };
    Ok(Statements::parse(dialect, &options.statements)?.timeout(options.timeout))
}

/// What the options of a letter mean to its sink; `plaintext` is what the connection says.
pub fn mail_config(options: &MailOptions, plaintext: bool) -> Result<MailConfig> {
    let templates =
        |texts: &[String]| texts.iter().map(|text| Template::parse(text)).collect::<Result<Vec<_>>>();
    let optional = |text: &Option<String>| text.as_deref().map(Template::parse).transpose();
    let (from, subject) = (Template::parse(&options.from)?, Template::parse(&options.subject)?);
    let mut config = MailConfig::new(from.clone(), from, subject);
    config.to = templates(&options.to)?;
    config.cc = templates(&options.cc)?;
    config.reply_to = optional(&options.reply_to)?;
    config.text = optional(&options.text)?;
    config.html = optional(&options.html)?;
    config.timeout = options.timeout;
    config.plaintext = plaintext;
    config.ca_file.clone_from(&options.ca_file);
    Ok(config)
}

/// What the options of figures mean to their sink. One that counts several types is several of one name.
pub fn meter_config(options: &[MeterOptions]) -> Result<MeterConfig> {
    let mut meters = Vec::new();
    for options in options {
        let mut meter = Meter::new(options.kind, &options.name);
        meter.help.clone_from(&options.help);
        meter.value = options.value.as_deref().map(Template::parse).transpose()?;
        meter.labels = headers(&options.labels)?;
        if options.types.is_empty() {
            meters.push(meter.clone());
        }
        for types in &options.types {
            meter.types = Some(types.clone());
            meters.push(meter.clone());
        }
    }
    Ok(MeterConfig::new(meters))
}

/// What the options of a table of errors mean.
pub fn error_table(options: &ErrorTableOptions) -> Result<ErrorTable> {
    let columns = options.columns.iter().map(|(field, column)| (*field, column.as_str()));
    ErrorTable::parse(options.schema.as_deref(), &options.table, columns)
}

/// What the options of a table of handled ids mean to the inbox; `prune` says whether rows of it are removed.
pub fn inbox_table(options: &InboxTableOptions, prune: bool) -> Result<InboxTable> {
    let mut table = InboxTable::parse(options.schema.as_deref(), &options.table, &options.id)?;
    if let Some(at) = &options.at {
        table = table.at(at)?;
    }
    if let Some(consumer) = &options.consumer {
        table = table.consumer(consumer)?;
    }
    table.prune(prune)
}

fn exchange_kind(kind: ExchangeKind) -> rabbitmq::ExchangeKind {
    match kind {
        ExchangeKind::Topic => rabbitmq::ExchangeKind::Topic,
        ExchangeKind::Direct => rabbitmq::ExchangeKind::Direct,
        ExchangeKind::Fanout => rabbitmq::ExchangeKind::Fanout,
        ExchangeKind::Headers => rabbitmq::ExchangeKind::Headers,
    }
}

fn queue_kind(kind: QueueKind) -> rabbitmq::QueueKind {
    match kind {
        QueueKind::Quorum => rabbitmq::QueueKind::Quorum,
        QueueKind::Classic => rabbitmq::QueueKind::Classic,
    }
}

fn topology(topology: Topology) -> rabbitmq::Topology {
    match topology {
        Topology::Declare => rabbitmq::Topology::Declare,
        Topology::Check => rabbitmq::Topology::Check,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_defaults_are_those_of_the_library() {
        let ours = exchange_config(&ExchangeOptions { exchange: "e".to_owned(), ..Default::default() });
        assert_eq!(ours.expect("the default template parses"), ExchangeConfig::new("e"));
        let header = TemplateOptions { name: "Type".to_owned(), template: "{type}".to_owned() };
        let ours = ExchangeOptions { headers: vec![header], ..Default::default() };
        let expected = Template::parse("{type}").expect("it parses");
        assert_eq!(exchange_config(&ours).expect("it parses").headers, [("Type".to_owned(), expected)]);
        let ours = topic_config(&TopicOptions { topic: "t".to_owned(), ..Default::default() });
        let theirs = TopicConfig::new(Template::parse("t").expect("it parses"));
        assert_eq!(ours.expect("it parses"), theirs);
        let queue =
            WorkQueueOptions { queue: "q".to_owned(), dead: "q.dlq".to_owned(), ..Default::default() };
        // Queues that the program makes are replicated, on both sides.
        let mut theirs = WorkQueueConfig::new("q");
        theirs.kind = rabbitmq::QueueKind::Quorum;
        assert_eq!(work_queue_config(&queue), theirs);
        let group =
            GroupOptions { topics: vec!["t".to_owned()], group: "g".to_owned(), ..Default::default() };
        assert_eq!(group_config(&group), GroupConfig::new("t", "g"));
        let url = "https://x.example/";
        let ours = endpoint_config(&EndpointOptions::new(url)).expect("it is well formed");
        assert_eq!(ours, EndpointConfig::new(url));
    }
}

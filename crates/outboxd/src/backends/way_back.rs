//! The way back to a queue or topic, for a message that a person sends there again.

use std::sync::Arc;

use outbox::rabbitmq::{Exchange, ExchangeConfig};
use outbox::template::Template;
use outbox::{Error, ErrorKind, Result, Sink};

use crate::connection::{Connection, Kind};

/// Leads to the queue or topic of this name at a broker. It makes nothing: what is not there takes nothing.
pub fn way_back(connection: &Connection, place: &str) -> Result<Arc<dyn Sink>> {
    let name = Template::parse(&place.replace('{', "{{").replace('}', "}}"))?;
    match connection.kind {
        Kind::Amqp => {
            // Through the default exchange, where the routing key is the name of a queue.
            let mut config = ExchangeConfig::new("");
            config.routing_key = name;
            Ok(Arc::new(Exchange::new(connection.url.reveal(), config)?))
        }
        Kind::Kafka => topic(connection, name),
        Kind::Postgres | Kind::Sqlite | Kind::MySql | Kind::Smtp => {
            Err(Error::new(ErrorKind::Config, "only a broker has queues and topics"))
        }
    }
}

#[cfg(feature = "kafka")]
fn topic(connection: &Connection, name: Template) -> Result<Arc<dyn Sink>> {
    let config = outbox::kafka::TopicConfig::new(name);
    Ok(Arc::new(outbox::kafka::Topic::new(connection.url.reveal(), config)?))
}

#[cfg(not(feature = "kafka"))]
fn topic(_: &Connection, _: Template) -> Result<Arc<dyn Sink>> {
    Err(Error::new(ErrorKind::Config, super::WITHOUT_KAFKA))
}

//! The way back to a queue or topic, for a message that a person sends there again.

use std::sync::Arc;

use outbox::rabbitmq::{Exchange, ExchangeConfig};
use outbox::template::Template;
use outbox::{Error, ErrorKind, Result, Sink};

use crate::options::GroupOptions;
use crate::plan::{Layout, SourcePlan};

/// Leads to the queue or topic of this name at the broker of a source. It makes nothing: what is not there takes nothing.
pub fn way_back(source: &SourcePlan, place: &str) -> Result<Arc<dyn Sink>> {
    let name = Template::parse(&place.replace('{', "{{").replace('}', "}}"))?;
    match &source.layout {
        Layout::Queue(_) => {
            // Through the default exchange, where the routing key is the name of a queue.
            let mut config = ExchangeConfig::new("");
            config.routing_key = name;
            Ok(Arc::new(Exchange::new(source.connection.url.reveal(), config)?))
        }
        Layout::Topic(options) => topic(source, options, name),
        Layout::Log(_) | Layout::Table(_) => {
            Err(Error::new(ErrorKind::Config, "only a broker has queues and topics"))
        }
    }
}

#[cfg(feature = "kafka")]
fn topic(source: &SourcePlan, options: &GroupOptions, name: Template) -> Result<Arc<dyn Sink>> {
    let config = topic_config(options, name);
    Ok(Arc::new(outbox::kafka::Topic::new(source.connection.url.reveal(), config)?))
}

/// What could be read can be sent back, over the same way.
#[cfg(feature = "kafka")]
fn topic_config(options: &GroupOptions, name: Template) -> outbox::kafka::TopicConfig {
    let mut config = outbox::kafka::TopicConfig::new(name);
    config.ca_file.clone_from(&options.ca_file);
    config.max_message = options.form.max_payload.saturating_add(HEADERS).max(config.max_message);
    config
}

/// Room for what stands on a message besides its payload.
#[cfg(feature = "kafka")]
const HEADERS: usize = 1 << 20;

#[cfg(not(feature = "kafka"))]
fn topic(_: &SourcePlan, _: &GroupOptions, _: Template) -> Result<Arc<dyn Sink>> {
    Err(Error::new(ErrorKind::Config, super::WITHOUT_KAFKA))
}

#[cfg(all(test, feature = "kafka"))]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_from_a_topic_goes_back_over_the_same_way() {
        let mut options = GroupOptions { ca_file: Some("own.pem".into()), ..GroupOptions::default() };
        options.form.max_payload = 5 << 20;
        let config = topic_config(&options, Template::parse("t").expect("it parses"));
        assert_eq!(config.ca_file, options.ca_file);
        assert!(config.max_message > options.form.max_payload);
        config.check().expect("it is sound");
    }
}

//! A look at a Kafka cluster and its topics. Which topics there are can be asked, so no probe is sent.

use std::collections::BTreeSet;

use outbox::Finding;
use outbox::kafka::TopicConfig;

/// Looks at a cluster, and at these topics.
#[cfg(feature = "kafka")]
pub async fn examine(url: &str, config: &TopicConfig, topics: &BTreeSet<String>) -> Vec<Finding> {
    use outbox::ErrorKind;
    use outbox::kafka::{Brokers, Topic};
    use outbox::template::Template;

    let check = async |template: &str| {
        let mut config = config.clone();
        config.topic = Template::parse(template)?;
        Topic::new(url, config)?.check().await
    };
    // A topic that is not the same for all messages is not asked for: only whether anybody answers.
    if let Err(error) = check("{type}").await {
        return vec![Finding::error("connection", &error)];
    }
    let servers = Brokers::parse(url).map(|brokers| brokers.servers()).unwrap_or_default();
    let mut findings = vec![Finding::ok("connection", format!("the cluster at {servers} answers"))];
    for topic in topics {
        findings.push(match check(&topic.replace('{', "{{").replace('}', "}}")).await {
            Ok(()) => Finding::ok("topic", format!("'{topic}' is there")),
            // Only one that is missing can be made.
            Err(error) if error.kind() == ErrorKind::Config => {
                let create =
                    format!("kafka-topics.sh --bootstrap-server {servers} --create --topic '{topic}'");
                Finding::failure("topic", format!("'{topic}': {}", error.chain())).fix(create)
            }
            Err(error) => Finding::error("topic", &error),
        });
    }
    findings
}

/// Says that there is nothing to look with.
#[cfg(not(feature = "kafka"))]
#[expect(clippy::unused_async, reason = "the same as with the feature")]
pub async fn examine(_: &str, _: &TopicConfig, _: &BTreeSet<String>) -> Vec<Finding> {
    let without = Finding::failure("connection", "this outboxd was built without Kafka");
    vec![without.fix("build it with --features kafka")]
}

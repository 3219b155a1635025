//! A look at a Kafka cluster and its topics. Which topics there are can be asked, so no probe is sent.

use std::collections::BTreeSet;

use outbox::Finding;
use outbox::kafka::TopicConfig;

/// Looks at a cluster, and at these topics.
#[cfg(feature = "kafka")]
pub async fn examine(url: &str, config: &TopicConfig, topics: &BTreeSet<String>) -> Vec<Finding> {
    outbox::kafka::Topic::examine(url, config, topics).await
}

/// Says that there is nothing to look with.
#[cfg(not(feature = "kafka"))]
#[expect(clippy::unused_async, reason = "the same as with the feature")]
pub async fn examine(_: &str, _: &TopicConfig, _: &BTreeSet<String>) -> Vec<Finding> {
    let without = Finding::failure("connection", "this outboxd was built without Kafka");
    vec![without.fix("build it with --features kafka")]
}

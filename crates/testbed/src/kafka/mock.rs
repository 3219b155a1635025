//! librdkafka's mock cluster, in the place of an Apache Kafka that cannot be had.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use anyhow::{Context, Result};
use rdkafka::mocking::MockCluster;

type Answer = Sender<rdkafka::error::KafkaResult<()>>;

/// A mock cluster on a thread of its own, since it may not leave the thread that made it.
#[derive(Debug)]
pub(super) struct Mock {
    brokers: String,
    topics: Sender<(String, i32, Answer)>,
}

impl Mock {
    pub(super) fn start() -> Result<Self> {
        let (topics, asked) = channel::<(String, i32, Answer)>();
        let (ready, brokers) = channel();
        thread::spawn(move || match MockCluster::new(1) {
            Ok(cluster) => {
                let _ = ready.send(Ok(cluster.bootstrap_servers()));
                // Until nobody can ask any more.
                for (name, partitions, answer) in asked {
                    let _ = answer.send(cluster.create_topic(&name, partitions, 1));
                }
            }
            Err(error) => drop(ready.send(Err(error))),
        });
        Ok(Self { brokers: brokers.recv().context("the mock cluster's thread ended")??, topics })
    }

    pub(super) fn brokers(&self) -> &str {
        &self.brokers
    }

    pub(super) fn create(&self, name: String, partitions: i32) -> Result<()> {
        let (answer, answered) = channel();
        self.topics.send((name, partitions, answer)).context("the mock cluster is gone")?;
        Ok(answered.recv().context("the mock cluster is gone")??)
    }
}

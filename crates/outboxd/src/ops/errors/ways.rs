//! The ways back to where messages failed.

use std::collections::BTreeMap;
use std::sync::Arc;

use outbox::{ErrorKind, Sink};

use crate::backends;
use crate::plan::{Layout, Plan, SourcePlan};
use crate::trouble::{Exit, Trouble};

/// The ways back to queues and topics, each opened once.
#[derive(Default)]
pub struct Ways(BTreeMap<(String, String), Arc<dyn Sink>>);

impl Ways {
    /// The way to a queue or topic from which an error in a table came.
    pub fn find(&mut self, plan: &Plan, table: &str, origin: &str) -> Result<Arc<dyn Sink>, Trouble> {
        let source = reader_of(plan, table, origin)?;
        let key = (source.connection.name.clone(), origin.to_owned());
        if let Some(sink) = self.0.get(&key) {
            return Ok(sink.clone());
        }
        let sink = backends::way_back(source, origin).map_err(|error| {
            let exit = if error.kind() == ErrorKind::Config { Exit::Config } else { Exit::Sink };
            Trouble::new(
                exit,
                format!("cannot send anything back to '{origin}': {}", error.chain()),
                error.advice(),
            )
        })?;
        self.0.insert(key, sink.clone());
        Ok(sink)
    }
}

/// Who knows the broker where the queue or topic is from which an error came: the source that reads it, or that of the
/// dead letters which the error table is fed from.
fn reader_of<'p>(plan: &'p Plan, table: &str, origin: &str) -> Result<&'p SourcePlan, Trouble> {
    let reads = |layout: &Layout| match layout {
        Layout::Queue(options) => options.queue == origin,
        Layout::Topic(options) => options.topics.iter().any(|topic| topic == origin),
        Layout::Log(_) | Layout::Table(_) => false,
    };
    if let Some(source) = plan.sources.values().find(|source| reads(&source.layout)) {
        return Ok(source);
    }
    let feeders = plan.pipes.values().filter(|pipe| pipe.to == table);
    let feeders =
        feeders.filter_map(|pipe| plan.sources.get(&pipe.from)).filter(|source| source.is_on_broker());
    let brokers: BTreeMap<&str, &SourcePlan> =
        feeders.map(|source| (source.connection.name.as_str(), source)).collect();
    let mut brokers = brokers.into_values();
    match (brokers.next(), brokers.next()) {
        (Some(only), None) if origin != "unknown" => Ok(only),
        _ => {
            let what = format!("nobody knows where '{origin}' is, from which an error came");
            let help =
                "name it as a source with queue or topic, or resolve the error with `outboxd errors resolve`";
            Err(Trouble::usage(what, help))
        }
    }
}

//! What is said of a message that nobody knows: it may be where nobody can look. Pure.
//!
//! What a publisher sent at once was never in an outbox. Until a consumer with an inbox has tried it, it is in a queue and
//! nowhere else, and a queue is not searched: that would take messages from its consumers.

use std::collections::BTreeSet;

use crate::plan::{Layout, Plan, SourcePlan, Target};
use crate::trouble::{Exit, Trouble};

/// That a message is not known, and where it may be all the same.
pub(super) fn not_found(plan: &Plan, id: &str, source: Option<&str>) -> Trouble {
    let places = places(plan, source);
    if places.is_empty() {
        let help = "check the id; what is old and done may have been removed";
        return Trouble::new(Exit::Failed, format!("there is no message '{id}'"), help).unknown();
    }
    let are = if places.len() == 1 { "is" } else { "are" };
    let places = places.into_iter().collect::<Vec<_>>().join(", ");
    let what = format!("message '{id}' was not found; it may wait in {places}, which {are} not searched");
    let help = "check the id, or ask again once a consumer with an inbox has tried it; what is old and done may have been \
                removed";
    Trouble::new(Exit::Failed, what, help).unknown()
}

/// The queues and topics in which a message can be that no outbox has: those of a source, or all.
fn places(plan: &Plan, source: Option<&str>) -> BTreeSet<String> {
    let is_meant = |other: &&SourcePlan| source.is_none_or(|name| name == other.name);
    let mut places: BTreeSet<String> = plan.sources.values().filter(is_meant).flat_map(of_source).collect();
    if source.is_none() {
        let sinks = plan.publishers.values().filter_map(|publisher| plan.sinks.get(&publisher.to));
        places.extend(sinks.flat_map(|sink| of_target(&sink.target)));
    }
    places
}

fn of_source(source: &SourcePlan) -> Vec<String> {
    match &source.layout {
        Layout::Queue(options) => vec![format!("queue '{}'", options.queue)],
        Layout::Topic(options) => options.topics.iter().map(|topic| format!("topic '{topic}'")).collect(),
        Layout::Log(_) | Layout::Table(_) => Vec::new(),
    }
}

fn of_target(target: &Target) -> Vec<String> {
    match target {
        Target::Exchange(_, options) if options.queues.is_empty() => {
            vec![format!("the queues behind exchange '{}'", options.exchange)]
        }
        Target::Exchange(_, options) => {
            options.queues.iter().map(|queue| format!("queue '{}'", queue.name)).collect()
        }
        Target::Topic(_, options) => vec![format!("topic '{}'", options.topic)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn told(config: &str, source: Option<&str>) -> String {
        let plan = Plan::parse(Path::new("outboxd.toml"), config, &|_| None).expect("it is valid").plan;
        not_found(&plan, "m-1", source).to_string()
    }

    #[test]
    fn e5_where_nobody_can_look_is_told() {
        let log = "[connections]\nshop = \"sqlite:shop.db\"\nrabbit = \"amqp://localhost\"\nkafka = \"kafka://localhost\"\n\
            [sources.orders]\non = \"shop\"\n";
        assert_eq!(told(log, None), "there is no message 'm-1'");
        let read = format!(
            "{log}[sources.work]\non = \"rabbit\"\nqueue = \"w\"\n[sources.events]\non = \"kafka\"\ntopics = [\"e\"]\ngroup = \"g\"\n"
        );
        let all = "message 'm-1' was not found; it may wait in queue 'w', topic 'e', which are not searched";
        assert_eq!(told(&read, None), all);
        assert_eq!(told(&read, Some("orders")), "there is no message 'm-1'");
        assert!(told(&read, Some("work")).ends_with("it may wait in queue 'w', which is not searched"));
    }
}

//! Whether inboxes remember for as long as the topics that are read keep their records.
//!
//! The offsets of a group expire when it has had no member for a while (7 days, unless the cluster says otherwise). Then
//! it starts at the beginning of what the topics still have, and all of that comes again.

use std::time::Duration;

use outbox::Finding;

use crate::backends::Opened;
use crate::options::Start;
use crate::plan::{Layout, PipePlan, Plan, SourcePlan};
use crate::quantity::show_duration;

const WHAT: &str = "inbox window";

/// Looks at the windows of the pipes that read from a source on Kafka.
pub async fn examine(plan: &Plan, source: &SourcePlan) -> Vec<Finding> {
    // A group that begins now does so again without its offsets, and reads nothing twice.
    if !matches!(&source.layout, Layout::Topic(options) if options.start == Start::Beginning) {
        return Vec::new();
    }
    let windows: Vec<_> = plan.pipes_from(&source.name).filter_map(|pipe| window(plan, pipe)).collect();
    if windows.is_empty() {
        return Vec::new();
    }
    let asked = async { Opened::open(source).await?.retentions().await };
    match asked.await {
        Ok(kept) => {
            let of_topic = |(topic, kept): (&String, &Option<Duration>)| {
                windows.iter().map(|window| judge(window, topic, *kept)).collect::<Vec<_>>()
            };
            kept.iter().flat_map(of_topic).collect()
        }
        Err(error) => {
            let evidence = format!(
                "not looked at, because it is not told how long the topics keep their records: {}",
                error.chain()
            );
            vec![Finding::ok(WHAT, evidence).fix("compare 'inbox_window' with their retention.ms")]
        }
    }
}

/// The window of a pipe's inbox.
struct Window<'p> {
    pipe: &'p str,
    sink: &'p str,
    window: Duration,
}

/// The window of a pipe, if it has an inbox that forgets.
fn window<'p>(plan: &'p Plan, pipe: &'p PipePlan) -> Option<Window<'p>> {
    let window = plan.sinks.get(&pipe.to)?.inbox.as_ref()?.window?;
    Some(Window { pipe: &pipe.name, sink: &pipe.to, window })
}

fn judge(inbox: &Window<'_>, topic: &str, kept: Option<Duration>) -> Finding {
    let Window { pipe, sink, window } = inbox;
    let (remembers, keeps) = (
        format!("the inbox of pipe '{pipe}' remembers ids for {}", show_duration(*window)),
        format!(
            "topic '{topic}' keeps its records {}",
            kept.map_or("without end".to_owned(), |kept| format!("for {}", show_duration(kept)))
        ),
    );
    if kept.is_some_and(|kept| kept <= *window) {
        return Finding::ok(WHAT, format!("{remembers}, and {keeps}"));
    }
    let evidence = format!(
        "{remembers}, but {keeps}: a group without a consumer for long (7 days, unless the cluster says otherwise) \
         starts again at the first of them, and handles twice what the inbox has forgotten"
    );
    let wanted = kept.map_or("never".to_owned(), show_duration);
    Finding::warning(WHAT, evidence).fix(format!("[sinks.{sink}] inbox_window = \"{wanted}\""))
}

#[cfg(test)]
mod tests {
    use outbox::Level;

    use super::*;

    #[test]
    fn d3_a_window_shorter_than_what_the_topic_keeps_is_a_warning_with_the_one_to_set() {
        let day = Duration::from_secs(24 * 60 * 60);
        let judged =
            |kept| judge(&Window { pipe: "notify", sink: "mailer", window: 7 * day }, "orders", kept);
        for kept in [day, 7 * day] {
            assert_eq!(judged(Some(kept)).level, Level::Ok);
        }
        for (kept, wanted) in [(Some(14 * day), "14d"), (None, "never")] {
            let finding = judged(kept);
            assert_eq!(finding.level, Level::Warning);
            assert_eq!(finding.fix, Some(format!("[sinks.mailer] inbox_window = \"{wanted}\"")));
        }
    }
}

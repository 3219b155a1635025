//! Who is told when something is wrong.

use std::time::Duration;

use super::{Checker, Known, Layout, SinkPlan, SourcePlan, Target};
use crate::config::AlertsConfig;
use crate::mistake::At;
use crate::options::AlertLimits;

/// Who is told, and of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertsPlan {
    /// The sinks that alerts go to straight.
    pub to: Vec<String>,
    /// The outbox that alerts are written into: a log.
    pub into: Option<String>,
    /// How often one looks.
    pub every: Duration,
    /// What may be.
    pub limits: AlertLimits,
}

impl Checker<'_> {
    /// `read` are the sources that pipes read from.
    pub(super) fn alerts(
        &self,
        config: Option<AlertsConfig>,
        sources: &Known<SourcePlan>,
        sinks: &Known<SinkPlan>,
        read: &[At<String>],
    ) -> Option<AlertsPlan> {
        let config = config?;
        let to = config.to.iter().filter_map(|to| self.alert_sink(to, sinks)).collect();
        let into = config.into.and_then(|into| self.alert_outbox(&into, sources, read));
        Some(AlertsPlan { to, into, every: config.every, limits: config.limits })
    }

    fn alert_sink(&self, to: &At<String>, sinks: &Known<SinkPlan>) -> Option<String> {
        let sink = self.find("alerts", "to", to, sinks, "sink")?;
        let reaches_people =
            !matches!(sink.target, Target::Sql(..) | Target::ErrorLog(..) | Target::Metrics(_));
        if !reaches_people || sink.inbox.is_some() {
            let what = format!("alerts.to = \"{}\": alerts cannot go there", to.value);
            let help = "name a sink with http, mail, exchange, topic, file or stdout, without an inbox";
            self.mistakes.note(to.place, what, help);
            return None;
        }
        Some(sink.name.clone())
    }

    fn alert_outbox(
        &self,
        into: &At<String>,
        sources: &Known<SourcePlan>,
        read: &[At<String>],
    ) -> Option<String> {
        let source = self.find("alerts", "into", into, sources, "source")?;
        if !matches!(source.layout, Layout::Log(_)) {
            let what =
                format!("alerts.into = \"{}\": is no log that alerts could be written into", into.value);
            self.mistakes.note(into.place, what, "name a source with layout = \"log\"");
            return None;
        }
        if !read.iter().any(|from| from.value == into.value) {
            let what = format!("alerts.into = \"{}\": no pipe carries what is written there", into.value);
            let help = format!("add a pipe with from = \"{}\" and to = \"…\"", into.value);
            self.mistakes.note(into.place, what, help);
        }
        Some(source.name.clone())
    }
}

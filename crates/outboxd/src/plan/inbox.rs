//! The inboxes of a plan: each in a database, and large enough for what may come again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Checker, Known, Layout, PipePlan, Places, SinkPlan, SourcePlan};
use crate::backends;
use crate::config::{InboxConfig, InboxPlace, PipeConfig};
use crate::connection::Connection;
use crate::options::InboxTableOptions;
use crate::quantity::show_duration;

/// What a broker may redeliver after its own delays: a consumer that died with the message, a restart, a takeover.
const SLACK: Duration = Duration::from_secs(3_600);

/// Where the ids are kept that a sink's consumers have handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxPlan {
    /// In which database.
    pub connection: Connection,
    /// In which table, if it is not ours.
    pub table: Option<InboxTableOptions>,
    /// How long an id is remembered; none keeps all.
    pub window: Option<Duration>,
}

impl Checker<'_> {
    /// The inbox of a sink; `own` is the sink's database, in which it then must be.
    pub(super) fn inbox(
        &self,
        whose: &str,
        config: InboxConfig,
        own: Option<&Connection>,
        connections: &Known<Connection>,
    ) -> Option<InboxPlan> {
        let connection = match (&config.on, own) {
            (InboxPlace::OfSink, own) => own?.clone(),
            (InboxPlace::On(on), Some(own)) if on.value != own.name => {
                let what = format!("{whose}.inbox: '{}' is another database than that of 'sql'", on.value);
                let help = "the inbox must be in the transaction of the statements; leave the connection out";
                self.mistakes.note(on.place, what, help);
                return None;
            }
            (InboxPlace::On(on), _) => {
                let connection = self.find(whose, "inbox", on, connections, "connection")?;
                if !connection.kind.is_database() {
                    let what = format!(
                        "{whose}.inbox = \"{}\": is no database, but {}",
                        on.value,
                        connection.kind.as_str()
                    );
                    self.mistakes.note(on.place, what, "name a sqlite:, postgres: or mysql: connection");
                    return None;
                }
                connection.clone()
            }
        };
        // A window without a column of the time is told already.
        if let Some(table) = &config.table
            && let Err(rule) =
                backends::check_inbox_table(table, table.at.is_some() && config.window.is_some())
        {
            let what = format!("{whose}.inbox: {rule}");
            self.mistakes.note(config.place, what, "write names as the database has them, without quotes");
        }
        Some(InboxPlan { connection, table: config.table, window: config.window })
    }

    /// An id that is forgotten too early is handled twice.
    pub(super) fn window(&self, config: &PipeConfig, source: &SourcePlan, sink: &SinkPlan, places: &Places) {
        let Some(window) = sink.inbox.as_ref().and_then(|inbox| inbox.window) else { return };
        let (inbox_place, written) = places.inboxes.get(&sink.name).copied().unwrap_or_default();
        let (least, why) = match &source.layout {
            Layout::Queue(options) => (options.retry.iter().sum::<Duration>() + SLACK, "its retries take"),
            Layout::Topic(options) => (options.retry.iter().sum::<Duration>() + SLACK, "its retries take"),
            // Of a log only a replay goes so far back: that is worth a word to somebody who chose the window.
            Layout::Log(_) | Layout::Table(_) => match (source.retention(), written) {
                (Some(retention), Some(_)) => (retention, "it keeps what can be replayed for"),
                _ => return,
            },
        };
        if window < least {
            let what = format!(
                "sinks.{}.inbox_window = \"{}\": is shorter than what source '{}' may bring again on pipe '{}': {why} {}",
                sink.name,
                show_duration(window),
                source.name,
                config.name.value,
                show_duration(least)
            );
            let help = format!(
                "raise it to \"{}\" at least, or a message may be handled twice",
                show_duration(least)
            );
            self.mistakes.warn(written.unwrap_or(inbox_place), what, help);
        }
    }

    /// Without a column for the consumer, what one pipe has handled is done for the other, too.
    pub(super) fn shared_inboxes(
        &self,
        pipes: &BTreeMap<String, PipePlan>,
        sinks: &Known<SinkPlan>,
        places: &Places,
    ) {
        let mut taken = BTreeMap::new();
        for pipe in pipes.values() {
            let Some(Some(sink)) = sinks.get(&pipe.to) else { continue };
            let Some(InboxPlan { connection, table: Some(table), .. }) = &sink.inbox else { continue };
            if table.consumer.is_some() {
                continue;
            }
            if let Some(first) = taken.insert((&connection.name, &table.table), &pipe.name) {
                let what = format!(
                    "sinks.{}.inbox: pipes '{first}' and '{}' share the ids in '{}': a message that comes on both is handled on one",
                    sink.name, pipe.name, table.table
                );
                let (place, _) = places.inboxes.get(&sink.name).copied().unwrap_or_default();
                self.mistakes.warn(
                    place,
                    what,
                    "name the column of the consumer: consumer = \"…\", or use two tables",
                );
            }
        }
    }
}

//! From the configuration to a checked plan: every name leads somewhere, every kind fits, nothing is
//! contradictory. Whoever holds a [`Plan`] need not check again.

mod access;
mod alerts;
mod broker;
mod handler;
mod inbox;
mod pipe;
mod server;
mod sink;
mod source;
mod table;
mod traces;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::de::DeTable;
use url::Url;

use crate::config::{Config, ConnectionConfig};
use crate::connection::Connection;
use crate::mistake::{At, Invalid, Mistake, Mistakes, Place, did_you_mean};
use crate::options::{ErrorLogOptions, LogOptions, PipeOptions, prefetch_for};
use crate::reader::{Reader, Section};
use crate::secret::mask;

pub use alerts::AlertsPlan;
pub use inbox::InboxPlan;
pub use server::{AuditPlan, HttpPlan, PublisherPlan};
pub use sink::{SinkPlan, Target};
pub use source::{Layout, SourcePlan};
pub use traces::TracesPlan;

/// What the program is to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Who we are when we own a cursor, if that was chosen.
    pub relay: Option<String>,
    /// What is logged, and how.
    pub log: LogOptions,
    /// By name.
    pub connections: BTreeMap<String, Connection>,
    /// By name.
    pub sources: BTreeMap<String, SourcePlan>,
    /// By name.
    pub sinks: BTreeMap<String, SinkPlan>,
    /// By name.
    pub pipes: BTreeMap<String, PipePlan>,
    /// The program's own HTTP server, if it has one.
    pub http: Option<HttpPlan>,
    /// By name.
    pub publishers: BTreeMap<String, PublisherPlan>,
    /// Where repairs are written down, if that is known.
    pub audit: Option<AuditPlan>,
    /// Who is told when something is wrong, if anybody is.
    pub alerts: Option<AlertsPlan>,
    /// Where spans go, if anywhere.
    pub traces: Option<TracesPlan>,
}

/// A plan, and what somebody should look at though it can be used.
#[derive(Debug)]
pub struct Checked {
    /// The plan.
    pub plan: Plan,
    /// What may not be meant so, in the order of the file.
    pub warnings: Vec<Mistake>,
}

/// From a source to a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipePlan {
    /// Its name, which is that of its cursor.
    pub name: String,
    /// The name of the source.
    pub from: String,
    /// The name of the sink.
    pub to: String,
    /// How it works.
    pub options: PipeOptions,
}

impl Plan {
    /// Reads and checks a configuration; `file` is where it came from.
    pub fn parse(
        file: &Path,
        text: &str,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Checked, Invalid> {
        Self::parse_noting_keys(file, text, environment).0
    }

    /// The same, and every key that was asked for.
    fn parse_noting_keys(
        file: &Path,
        text: &str,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> (Result<Checked, Invalid>, Vec<String>) {
        let mistakes = Mistakes::default();
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            // Only the message: the rest of a syntax error quotes the line, and with it perhaps a secret.
            let place = error.span().map_or(0, |span| span.start);
            mistakes.note(
                place,
                format!("not valid TOML: {}", error.message()),
                "see https://toml.io for the syntax",
            );
        }
        // After a syntax error the rest of the table is a guess; after a duplicate key it is not.
        if errors.iter().any(|error| error.message() != "duplicate key") {
            return (Err(mistakes.into_invalid(file, text)), Vec::new());
        }
        let base = absolute_folder(file);
        let reader = Reader { text, base: &base, environment, mistakes: &mistakes, keys: RefCell::default() };
        let config = Config::read(Section::root(&reader, table.get_ref()));
        let keys = reader.keys.into_inner().into_iter().collect();
        let plan = Checker { base: &base, mistakes: &mistakes }.check(config);
        let checked = if mistakes.is_empty() {
            Ok(Checked { plan, warnings: mistakes.into_warnings(file, text) })
        } else {
            Err(mistakes.into_invalid(file, text))
        };
        (checked, keys)
    }

    /// The databases with tables of ours, besides the logs: of inboxes, of errors, of the audit if it was chosen.
    pub fn tables_of_ours(&self) -> Vec<&Connection> {
        let inboxes = self.sinks.values().filter_map(|sink| {
            let inbox = sink.inbox.as_ref()?;
            inbox.table.is_none().then_some(&inbox.connection)
        });
        let errors = self.sinks.values().filter_map(|sink| match &sink.target {
            Target::ErrorLog(connection, ErrorLogOptions::Ours) => Some(connection),
            _ => None,
        });
        let audit = self.audit.iter().filter(|audit| audit.chosen).map(|audit| &audit.connection);
        let all = inboxes.chain(errors).chain(audit).map(|connection| (&connection.name, connection));
        all.collect::<BTreeMap<_, _>>().into_values().collect()
    }

    /// The pipes that read from a source.
    pub fn pipes_from(&self, source: &str) -> impl Iterator<Item = &PipePlan> {
        self.pipes.values().filter(move |pipe| pipe.from == source)
    }
}

fn absolute_folder(file: &Path) -> PathBuf {
    let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
    std::path::absolute(if folder.as_os_str().is_empty() { Path::new(".") } else { &folder })
        .unwrap_or(folder)
}

struct Checker<'a> {
    base: &'a Path,
    mistakes: &'a Mistakes,
}

/// Where things were written that have to fit something elsewhere.
#[derive(Debug, Default)]
struct Places {
    /// Of each source: the limit that has to fit the sink, or the queue.
    sources: BTreeMap<String, Place>,
    /// Of each sink: its name.
    sinks: BTreeMap<String, Place>,
    /// Of each sink with an inbox: the inbox, and its window if it was written.
    inboxes: BTreeMap<String, (Place, Option<Place>)>,
}

impl Places {
    fn of(config: &Config) -> Self {
        let sources = config
            .sources
            .iter()
            .filter_map(|source| Some((source.name.value.clone(), source.layout.as_ref()?.limit_place())));
        let sinks = config.sinks.iter().map(|sink| (sink.name.value.clone(), sink.name.place));
        let inboxes = config.sinks.iter().filter_map(|sink| {
            let inbox = sink.inbox.as_ref()?;
            Some((sink.name.value.clone(), (inbox.place, inbox.window_place)))
        });
        Self { sources: sources.collect(), sinks: sinks.collect(), inboxes: inboxes.collect() }
    }
}

/// Something that was named, or nothing if it has a mistake of its own that is noted already.
type Known<T> = BTreeMap<String, Option<T>>;

impl Checker<'_> {
    fn check(&self, config: Config) -> Plan {
        if config.connections.is_empty() && config.sources.is_empty() && config.pipes.is_empty() {
            let help = "write a first configuration with `outboxd init`";
            self.mistakes.note(
                0,
                "nothing is configured: there is no connection, no source and no pipe",
                help,
            );
        }
        let places = Places::of(&config);
        let connections = self.connections(config.connections);
        let sources = self.sources(config.sources, &connections);
        let sinks = self.sinks(config.sinks, &connections);
        self.one_kind_per_queue(&sources, &sinks, &places);
        self.one_reader(&config.pipes, &sources);
        let named: Vec<_> = config.pipes.iter().filter_map(|pipe| pipe.from.clone()).collect();
        let mut pipes = BTreeMap::new();
        for pipe in config.pipes {
            if let Some(pipe) = self.pipe(pipe, &sources, &sinks, &places) {
                pipes.insert(pipe.name.clone(), pipe);
            }
        }
        self.shared_inboxes(&pipes, &sinks, &places);
        self.unread_figures(&sinks, config.http.is_some(), &places);
        let http = self.http(config.http, &config.publishers);
        let publishers = self.publishers(config.publishers, &sources, &sinks, &named);
        let alerts = self.alerts(config.alerts, &sources, &sinks, &named);
        let audit = self.audit(config.audit, &connections, &sources);
        let traces = self.traces(config.traces);
        if let Some(relay) = &config.relay
            && (relay.value.trim().is_empty() || relay.value.len() > 200)
        {
            self.mistakes.note(
                relay.place,
                "relay.name: must have 1 to 200 bytes",
                "leave it out for the name of the host",
            );
        }
        let relay = config.relay.map(|name| name.value);
        let (connections, mut sources, mut sinks) = (settled(connections), settled(sources), settled(sinks));
        broker::share_arguments(&mut sources, &mut sinks);
        for pipe in pipes.values() {
            if let Some(source) = sources.get_mut(&pipe.from) {
                source.reader.get_or_insert_with(|| pipe.name.clone());
                if let Layout::Queue(options) = &mut source.layout {
                    options.prefetch.get_or_insert_with(|| prefetch_for(&pipe.options));
                }
            }
        }
        Plan {
            relay,
            log: config.log,
            connections,
            sources,
            sinks,
            pipes,
            http,
            publishers,
            audit,
            alerts,
            traces,
        }
    }

    /// A name that we put into tables, logs and metrics.
    fn name(&self, section: &str, name: &At<String>) {
        let well_formed = name.value.len() <= 63
            && name.value.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if !well_formed {
            let shown: String = name.value.chars().filter(|c| !c.is_control()).take(80).collect();
            let what = format!("\"{shown}\" in [{section}] is no name");
            let help = "a name begins with a letter and has letters, digits, _ and -, at most 63";
            self.mistakes.note(name.place, what, help);
        }
    }

    /// What a reference leads to; a name that nothing bears is noted.
    fn find<'k, T>(
        &self,
        whose: &str,
        key: &str,
        name: &At<String>,
        known: &'k Known<T>,
        noun: &str,
    ) -> Option<&'k T> {
        let Some(found) = known.get(&name.value) else {
            let what = format!("{whose}.{key} = \"{}\": there is no such {noun}", name.value);
            let help = if known.is_empty() {
                format!("add it under [{noun}s]")
            } else {
                did_you_mean(&name.value, known.keys().map(String::as_str))
            };
            self.mistakes.note(name.place, what, help);
            return None;
        };
        found.as_ref()
    }

    fn connections(&self, configs: Vec<ConnectionConfig>) -> Known<Connection> {
        let mut connections = Known::new();
        for config in configs {
            self.name("connections", &config.name);
            let name = &config.name.value;
            let parsed = config.url.and_then(|url| {
                let password = config.password.as_ref().map(|password| &password.value);
                match Connection::parse(name, url.value.reveal(), password, config.plaintext, self.base) {
                    Ok(connection) => Some(connection),
                    Err((rule, help)) => {
                        let shown = quote_url(url.value.reveal());
                        self.mistakes.note(url.place, format!("connections.{name}{shown}: {rule}"), help);
                        None
                    }
                }
            });
            connections.insert(config.name.value, parsed);
        }
        connections
    }
}

/// A URL for a mistake about it. What cannot be parsed is not quoted beyond its scheme: where a password
/// would stand in it cannot be told.
fn quote_url(url: &str) -> String {
    match (Url::parse(url), url.split_once("://")) {
        (Ok(_), _) => format!(" = \"{}\"", mask(url)),
        (Err(_), Some((scheme, _))) => format!(" = \"{scheme}://…\""),
        (Err(_), None) => String::new(),
    }
}

fn settled<T>(known: Known<T>) -> BTreeMap<String, T> {
    known.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[cfg(test)]
mod access_tests;
#[cfg(test)]
mod alerts_tests;
#[cfg(test)]
mod broker_tests;
#[cfg(test)]
mod handler_tests;
#[cfg(test)]
mod server_tests;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

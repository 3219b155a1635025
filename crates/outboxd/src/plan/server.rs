//! The program's own HTTP server, the publishers behind it, and where repairs are written down.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::{Checker, Known, Layout, SinkPlan, SourcePlan, Target};
use crate::config::{AuditConfig, HttpConfig, PublisherConfig};
use crate::connection::Connection;
use crate::mistake::At;
use crate::options::AccessOptions;
use crate::secret::Secret;

/// The HTTP server of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpPlan {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What a request to publish must bear; without one there is no publishing.
    pub token: Option<Secret>,
    /// Who may ask for pages and the API.
    pub access: AccessOptions,
}

/// Publishes at once, or keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublisherPlan {
    /// Its name.
    pub name: String,
    /// The sink: an exchange or a topic.
    pub to: String,
    /// The source that keeps what could not be published: a log or a mapped table.
    pub keep: String,
    /// How long the broker may take.
    pub timeout: Duration,
}

/// Where repairs are written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPlan {
    /// In which database.
    pub connection: Connection,
    /// Whether that was written, or is so because there is no other database.
    pub chosen: bool,
}

/// The one that there is, if there are no more.
fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next();
    first.filter(|_| all.next().is_none())
}

impl Checker<'_> {
    pub(super) fn http(
        &self,
        config: Option<HttpConfig>,
        publishers: &[PublisherConfig],
    ) -> Option<HttpPlan> {
        let Some(config) = config else {
            if let Some(first) = publishers.first() {
                let what = format!("publishers.{}: nobody listens for its messages", first.name.value);
                let help = "add [http] with listen = \"127.0.0.1:8480\" and a token";
                self.mistakes.note(first.name.place, what, help);
            }
            return None;
        };
        if let (Some(first), false) = (publishers.first(), config.has_token) {
            let what = format!("[http] has no 'token', which publisher '{}' needs", first.name.value);
            let help = "add token_file = \"path\", or token = \"${VARIABLE}\"";
            self.mistakes.note(config.place, what, help);
        }
        let listen = config.listen?;
        let has_login = config.has_token || !config.access.people.is_empty();
        if !has_login && !listen.value.ip().is_loopback() && publishers.is_empty() {
            let what = format!(
                "http.listen = \"{}\": anybody can reach it, and nobody needs to sign in",
                listen.value
            );
            let help = "add token_file = \"path\" or [http.people.NAME], or listen on 127.0.0.1";
            self.mistakes.note(listen.place, what, help);
        }
        let token = config.token.map(|token| token.value);
        let access = self.access(config.access, &listen, token.as_ref());
        Some(HttpPlan { listen: listen.value, token, access })
    }

    /// `read` are the sources that pipes read from.
    pub(super) fn publishers(
        &self,
        configs: Vec<PublisherConfig>,
        sources: &Known<SourcePlan>,
        sinks: &Known<SinkPlan>,
        read: &[At<String>],
    ) -> BTreeMap<String, PublisherPlan> {
        let mut publishers = BTreeMap::new();
        for config in configs {
            self.name("publishers", &config.name);
            let whose = format!("publishers.{}", config.name.value);
            let to = config.to.as_ref().map(|to| self.publisher_sink(&whose, to, sinks));
            let keep = config.keep.as_ref().map(|keep| self.publisher_source(&whose, keep, sources, read));
            if let (Some(Some(to)), Some(Some(keep))) = (to, keep) {
                let name = config.name.value;
                publishers.insert(name.clone(), PublisherPlan { name, to, keep, timeout: config.timeout });
            }
        }
        publishers
    }

    fn publisher_sink(&self, whose: &str, to: &At<String>, sinks: &Known<SinkPlan>) -> Option<String> {
        let sink = self.find(whose, "to", to, sinks, "sink")?;
        if !matches!(sink.target, Target::Exchange(..) | Target::Topic(..)) {
            let what = format!("{whose}.to = \"{}\": is no sink on a broker", to.value);
            self.mistakes.note(to.place, what, "name a sink with 'exchange' or 'topic'");
            return None;
        }
        Some(sink.name.clone())
    }

    fn publisher_source(
        &self,
        whose: &str,
        keep: &At<String>,
        sources: &Known<SourcePlan>,
        read: &[At<String>],
    ) -> Option<String> {
        let source = self.find(whose, "keep", keep, sources, "source")?;
        if !matches!(source.layout, Layout::Log(_) | Layout::Table(_)) {
            let what = format!("{whose}.keep = \"{}\": a broker that is away keeps nothing", keep.value);
            self.mistakes.note(keep.place, what, "name a source in a database");
            return None;
        }
        if !read.iter().any(|from| from.value == keep.value) {
            let what = format!("{whose}.keep = \"{}\": no pipe delivers what is kept there", keep.value);
            let help = format!("add a pipe with from = \"{}\" and to = \"…\"", keep.value);
            self.mistakes.note(keep.place, what, help);
        }
        Some(source.name.clone())
    }

    pub(super) fn audit(
        &self,
        config: Option<AuditConfig>,
        connections: &Known<Connection>,
        sources: &Known<SourcePlan>,
    ) -> Option<AuditPlan> {
        let Some(config) = config else {
            let databases = connections.values().flatten().filter(|one| one.kind.is_database());
            // Where there are several, the one with the only log has our tables.
            let logs = sources.values().flatten().filter(|source| matches!(source.layout, Layout::Log(_)));
            let only = only(databases).or_else(|| only(logs).map(|source| &source.connection));
            return only.map(|only| AuditPlan { connection: only.clone(), chosen: false });
        };
        let on = config.on?;
        let connection = self.find("audit", "on", &on, connections, "connection")?;
        if !connection.kind.is_database() {
            let what =
                format!("audit.on = \"{}\": is no database, but {}", on.value, connection.kind.as_str());
            self.mistakes.note(on.place, what, "name a sqlite:, postgres: or mysql: connection");
            return None;
        }
        Some(AuditPlan { connection: connection.clone(), chosen: true })
    }
}

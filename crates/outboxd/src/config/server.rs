//! `[http]`, `[publishers.NAME]` and `[audit]`: what the program offers and writes down itself.

use std::net::SocketAddr;
use std::time::Duration;

use super::access::{AccessConfig, read_access, read_token};
use super::{millis, minutes};
use crate::mistake::{At, Place};
use crate::options::PUBLISH_TIMEOUT;
use crate::reader::Section;
use crate::secret::Secret;

/// The HTTP server of the program.
#[derive(Debug)]
pub struct HttpConfig {
    /// Where it listens, unless that was a mistake already.
    pub listen: Option<At<SocketAddr>>,
    /// What a request to `/v1` must bear.
    pub token: Option<At<Secret>>,
    /// Whether a token was written, well or not.
    pub has_token: bool,
    /// Who may ask for pages and the API.
    pub access: AccessConfig,
    /// Where the section begins.
    pub place: Place,
}

/// Publishes at once, or keeps.
#[derive(Debug)]
pub struct PublisherConfig {
    /// Its name.
    pub name: At<String>,
    /// The sink.
    pub to: Option<At<String>>,
    /// The source that keeps what could not be published.
    pub keep: Option<At<String>>,
    /// How long the broker may take.
    pub timeout: Duration,
}

/// Where repairs are written down.
#[derive(Debug)]
pub struct AuditConfig {
    /// The connection.
    pub on: Option<At<String>>,
}

pub(super) fn read_http(section: Section<'_>) -> HttpConfig {
    let help = "say where to listen: listen = \"127.0.0.1:8480\"";
    let listen = section.required("listen", help).and_then(|text| match text.value.parse() {
        Ok(listen) => Some(At::new(listen, text.place)),
        Err(_) => {
            let help =
                "write an IP address and a port: \"127.0.0.1:8480\", \"0.0.0.0:8480\" or \"[::1]:8480\"";
            section.note("listen", "is no address to listen on", help);
            None
        }
    });
    let place = section.place();
    let has_token = section.has("token") || section.has("token_file");
    let token = read_token(&section);
    let access = read_access(&section);
    section.finish(&[]);
    HttpConfig { listen, token, has_token, access, place }
}

pub(super) fn read_publisher(name: At<String>, section: Section<'_>) -> PublisherConfig {
    let to = section.required("to", "name the sink on a broker: to = \"…\"");
    let keep = section.required("keep", "name the source that keeps what cannot be sent: keep = \"…\"");
    let mut timeout = PUBLISH_TIMEOUT;
    section.duration("timeout", millis(10)..=minutes(1), &mut timeout);
    section.finish(&[]);
    PublisherConfig { name, to, keep, timeout }
}

pub(super) fn read_audit(section: Section<'_>) -> AuditConfig {
    let on = section.required("on", "name the connection: on = \"…\"");
    section.finish(&[]);
    AuditConfig { on }
}

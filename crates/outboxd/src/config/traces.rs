//! `[traces]`: where spans go.

use std::path::PathBuf;

use crate::mistake::At;
use crate::reader::Section;
use crate::secret::Secret;

/// The variables that name a collector to every program that uses OpenTelemetry: of traces alone, and of everything.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const SERVICE: &str = "OTEL_SERVICE_NAME";

/// Where spans go.
#[derive(Debug)]
pub struct TracesConfig {
    /// The URL of the collector, unless that was a mistake already.
    pub endpoint: Option<At<Secret>>,
    /// Whether the URL is whole, path and all.
    pub is_whole: bool,
    /// Headers of every request.
    pub headers: Vec<(At<String>, Secret)>,
    /// Which part of the messages without a context of their own is traced.
    pub sample: f64,
    /// The name of the service.
    pub service: At<String>,
    /// Whether it may go unencrypted to another host.
    pub plaintext: bool,
    /// Certificates that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
}

pub(super) fn read_traces(section: Section<'_>) -> TracesConfig {
    let (endpoint, is_whole) = read_endpoint(&section);
    let mut headers = Vec::new();
    if let Some(table) = section.section("headers") {
        for (name, value) in table.named() {
            if let Some(text) = table.named_text(&name, value) {
                headers.push((name, Secret::new(text.value)));
            }
        }
    }
    let mut sample = 1.0;
    section.part("sample", &mut sample);
    let named = || section.variable(SERVICE).unwrap_or_else(|| "outboxd".to_owned());
    let service = section.text("service").unwrap_or_else(|| At::new(named(), section.place()));
    let mut plaintext = false;
    section.flag("plaintext", &mut plaintext);
    let ca_file = section.path("ca_file").map(|path| path.value);
    section.finish(&[]);
    TracesConfig { endpoint, is_whole, headers, sample, service, plaintext, ca_file }
}

fn read_endpoint(section: &Section<'_>) -> (Option<At<Secret>>, bool) {
    let hide = |text: At<String>| At::new(Secret::new(text.value), text.place);
    let endpoint = section.text("endpoint");
    if section.has("endpoint_file") {
        if section.has("endpoint") {
            section.note_hidden("endpoint_file", "stands beside 'endpoint'", "keep one of the two");
        }
        return (section.secret_file("endpoint_file").map(hide), false);
    }
    if section.has("endpoint") {
        return (endpoint.map(hide), false);
    }
    // The variable of traces alone is the whole URL; the other is of all signals, and each has its path.
    for (name, is_whole) in ENDPOINTS.into_iter().zip([true, false]) {
        if let Some(url) = section.variable(name) {
            return (Some(At::new(Secret::new(url), section.place())), is_whole);
        }
    }
    let help = "name the collector: endpoint = \"http://127.0.0.1:4318\"";
    section.note_missing(&["endpoint"], help);
    (None, false)
}

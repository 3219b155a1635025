//! The rules of `[traces]`: a collector that can be reached without giving a secret away.

use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use url::Url;

use super::Checker;
use crate::config::TracesConfig;
use crate::connection::is_this_machine;
use crate::mistake::At;
use crate::secret::Secret;

/// Where spans go.
#[derive(Debug, Clone, PartialEq)]
pub struct TracesPlan {
    /// The whole URL. Any part of it may be secret.
    pub endpoint: Secret,
    /// Scheme, host and port, which are not.
    pub place: String,
    /// Whether it is called over TLS.
    pub tls: bool,
    /// Headers of every request.
    pub headers: Vec<(String, Secret)>,
    /// Which part of the messages without a context of their own is traced.
    pub sample: f64,
    /// The name of the service.
    pub service: String,
    /// Whether it may go unencrypted to another host.
    pub plaintext: bool,
    /// Certificates that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
}

/// The path of traces, by the protocol.
const PATH: &str = "/v1/traces";

/// What breaks a rule, and what to do.
type Rule = (&'static str, &'static str);

impl Checker<'_> {
    pub(super) fn traces(&self, config: Option<TracesConfig>) -> Option<TracesPlan> {
        let config = config?;
        let mut headers = Vec::new();
        for (name, value) in config.headers {
            if let Err((rule, help)) = check_header(&name.value, value.reveal()) {
                let what = format!("traces.headers.{}: {rule}", shown(&name.value));
                self.mistakes.note(name.place, what, help);
            }
            headers.push((name.value, value));
        }
        if config.service.value.trim().is_empty() || config.service.value.len() > 255 {
            let help = "leave it out for \"outboxd\"";
            self.mistakes.note(config.service.place, "traces.service: must have 1 to 255 bytes", help);
        }
        let At { value: endpoint, place } = config.endpoint?;
        let (url, login) = match parse(endpoint.reveal(), config.is_whole, config.plaintext) {
            Ok(parsed) => parsed,
            Err((rule, help)) => {
                // The URL is not repeated: it may hold a secret in any part.
                self.mistakes.note(place, format!("traces.endpoint: {rule}"), help);
                return None;
            }
        };
        if let Some(login) = login {
            headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
            headers.push(("authorization".to_owned(), login));
        }
        Some(TracesPlan {
            place: url.origin().ascii_serialization(),
            tls: url.scheme() == "https",
            endpoint: Secret::new(url),
            headers,
            sample: config.sample,
            service: config.service.value,
            plaintext: config.plaintext,
            ca_file: config.ca_file,
        })
    }
}

/// The whole URL, and the header that stands for a user and a password in it.
fn parse(text: &str, is_whole: bool, plaintext: bool) -> Result<(Url, Option<Secret>), Rule> {
    let help = "write http://127.0.0.1:4318 or https://host:4318";
    let mut url = Url::parse(text.trim()).map_err(|_| ("is no URL", help))?;
    if !["http", "https"].contains(&url.scheme()) || url.host().is_none() {
        return Err(("is no URL of HTTP", help));
    }
    if url.scheme() == "http" && !plaintext && !is_this_machine(&url) {
        let help = "write https://, or set plaintext = true if the network is yours alone";
        return Err(("goes unencrypted to another host", help));
    }
    if !is_whole && !url.path().ends_with(PATH) {
        let path = format!("{}{PATH}", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    url.set_fragment(None);
    let login = (!url.username().is_empty() || url.password().is_some()).then(|| {
        let plain = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let login = format!("{}:{}", plain(url.username()), plain(url.password().unwrap_or_default()));
        Secret::new(format!("Basic {}", BASE64_STANDARD.encode(login)))
    });
    // Neither can fail: the URL has a host.
    let _ = (url.set_username(""), url.set_password(None));
    Ok((url, login))
}

fn check_header(name: &str, value: &str) -> Result<(), Rule> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || name.len() > 255 || !name.chars().all(is_token) {
        return Err(("is no name of a header", "write letters, digits and -"));
    }
    if value.is_empty() || !value.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
        return Err(("has a value that HTTP cannot carry", "write printable ASCII in one line"));
    }
    Ok(())
}

fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{BASE, assert_each, parse as plan};
    use super::*;
    use crate::plan::Plan;
    use crate::show::effective;

    fn with(traces: &str) -> String {
        format!("{BASE}[traces]\n{traces}\n")
    }

    fn traces(text: &str) -> TracesPlan {
        let plan = plan(&with(text)).unwrap_or_else(|invalid| panic!("{text}\n{:#?}", invalid.mistakes));
        plan.traces.expect("there is a collector")
    }

    #[test]
    fn e5_a_collector_is_called_at_the_path_of_traces() {
        for (endpoint, whole) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("https://otel.example/in/?key=k", "https://otel.example/in/v1/traces?key=k"),
            ("https://otel.example/v1/traces", "https://otel.example/v1/traces"),
        ] {
            let traces = traces(&format!("endpoint = \"{endpoint}\""));
            assert_eq!(traces.endpoint.reveal(), whole);
            assert_eq!(traces.tls, endpoint.starts_with("https"));
            assert_eq!((traces.sample, &*traces.service), (1.0, "outboxd"));
        }
        assert!(plan(BASE).expect("it is valid").traces.is_none());
    }

    #[test]
    fn e5_a_user_in_the_url_becomes_a_header() {
        let traces = traces("endpoint = \"https://me:p%40ss@otel.example\"\nheaders = { X-A = \"1\" }");
        assert_eq!(traces.endpoint.reveal(), "https://otel.example/v1/traces");
        let headers: Vec<_> = traces.headers.iter().map(|(name, value)| (&**name, value.reveal())).collect();
        assert_eq!(headers, [("X-A", "1"), ("authorization", "Basic bWU6cEBzcw==")]);
    }

    #[test]
    fn e5_the_environment_names_the_collector_where_the_section_does_not() {
        let parse = |text: &str, variables: &[(&str, &str)]| {
            let lookup = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let checked = Plan::parse(std::path::Path::new("/srv/outboxd.toml"), text, &lookup);
            checked.expect("it is valid").plan.traces
        };
        let all = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:1"), ("OTEL_SERVICE_NAME", "shop")];
        let found = parse(&with(""), &all).expect("there is one");
        assert_eq!((found.endpoint.reveal(), &*found.service), ("http://localhost:1/v1/traces", "shop"));
        let own = [all[0], ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://localhost:2/here")];
        assert_eq!(
            parse(&with(""), &own).expect("there is one").endpoint.reveal(),
            "http://localhost:2/here"
        );
        let said = parse(&with("endpoint = \"http://localhost:3\"\nservice = \"x\""), &all);
        let said = said.expect("there is one");
        assert_eq!((said.endpoint.reveal(), &*said.service), ("http://localhost:3/v1/traces", "x"));
        assert!(parse(BASE, &all).is_none(), "nobody asked for traces");
    }

    #[test]
    fn e5_mistakes_of_traces() {
        let local = "endpoint = \"http://127.0.0.1:4318\"";
        assert_each(&[
            (with(""), "[traces] has no 'endpoint' | name the collector"),
            (with("endpoint = \"otel\""), "traces.endpoint: is no URL | write http"),
            (with("endpoint = \"grpc://canary:canary@otel.example\""), "traces.endpoint: is no URL of HTTP"),
            (
                with("endpoint = \"http://otel.example:4318\""),
                "traces.endpoint: goes unencrypted to another host | write https://, or set plaintext = true",
            ),
            (with(&format!("{local}\nsample = 1.5")), "traces.sample = 1.5: is out of range"),
            (with(&format!("{local}\nsample = \"all\"")), "traces.sample: must be a number, not a string"),
            (with(&format!("{local}\nservice = \"\"")), "traces.service: must have 1 to 255 bytes"),
            (with(&format!("{local}\nheaders = {{ \"a b\" = \"x\" }}")), "is no name of a header"),
            (with(&format!("{local}\nheaders = {{ a = \"x\\ny\" }}")), "a value that HTTP cannot carry"),
            (with(&format!("{local}\nsampling = 1")), "unknown key 'sampling' in [traces]"),
        ]);
        traces("endpoint = \"http://otel.example:4318\"\nplaintext = true");
    }

    #[test]
    fn e5_what_is_secret_about_a_collector_is_not_shown() {
        let text = "endpoint = \"https://me:canary@otel.example/canary?key=canary\"\nheaders = { X-Tenant = \"canary\" }\nsample = 0.5";
        let plan = plan(&with(text)).expect("it is valid");
        let (debug, shown) = (format!("{plan:?}"), effective(&plan).to_string());
        assert!(!debug.contains("canary") && !shown.contains("canary"), "{debug}\n{shown}");
        assert!(shown.contains("https://otel.example") && shown.contains("X-Tenant"), "{shown}");
    }
}

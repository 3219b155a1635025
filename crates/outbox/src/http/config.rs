//! What a person decides about an endpoint; plain values, checked by [`EndpointConfig::check`].

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::envelope::{check_header_name, is_framing, is_ours_alone};
use super::guard::{Reach, is_loopback, literal};
use super::sign::Secret;
use crate::cloudevents::DEFAULT_SOURCE;
use crate::error::{Error, ErrorKind, Result};
use crate::template::Template;

/// How messages reach an endpoint.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// Where requests go, `https://…` or `http://…`. A user and a password in it are sent as basic authentication; they
    /// are never shown, and neither is anything after the host.
    pub url: String,
    /// Requests are signed with each of these (Standard Webhooks); with none they are not signed.
    pub secrets: Vec<Secret>,
    /// Headers that every request bears besides those of its message, such as `authorization`. Their values are never
    /// shown.
    pub headers: Vec<(String, Template)>,
    /// How long an answer may take, the connection included (15 s).
    pub timeout: Duration,
    /// How long a connection may take (5 s, and no more than half of `timeout`).
    pub connect_timeout: Duration,
    /// Whether addresses that are not of the public Internet may be called. A URL whose host is literally `localhost`,
    /// `127.x.x.x` or `[::1]` needs no permission: it says what it does.
    pub private: bool,
    /// Whether `http:` may be used to another host than those.
    pub plaintext: bool,
    /// A file of certificates in PEM that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
    /// The `source` of the CloudEvents attributes.
    pub source: String,
    /// So many messages of one call are on their way at a time (8).
    pub concurrency: usize,
}

impl EndpointConfig {
    /// Messages are posted to this URL, unsigned.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            secrets: Vec::new(),
            headers: Vec::new(),
            timeout: Duration::from_secs(15),
            connect_timeout: Duration::from_secs(5),
            private: false,
            plaintext: false,
            ca_file: None,
            source: DEFAULT_SOURCE.to_owned(),
            concurrency: 8,
        }
    }

    /// Says in one sentence what cannot work, if anything.
    pub fn check(&self) -> Result<()> {
        let url = self.url()?;
        let has_user = !url.username().is_empty() || url.password().is_some();
        for (at, (name, _)) in self.headers.iter().enumerate() {
            check_header_name(name).map_err(wrong)?;
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            if is_framing(name) || is_ours_alone(name) {
                return Err(wrong(format!(
                    "the header '{name}' is written by the request itself; leave it out"
                )));
            }
            if has_user && is("authorization") {
                let what = "the URL has a user and there is a header 'authorization'; leave one of them out";
                return Err(wrong(what.to_owned()));
            }
            if self.headers[..at].iter().any(|(other, _)| is(other)) {
                return Err(wrong(format!("the header '{name}' is there twice")));
            }
        }
        let limits = Duration::from_millis(10)..=Duration::from_secs(600);
        if !limits.contains(&self.timeout) || !limits.contains(&self.connect_timeout) {
            return Err(wrong("a time limit must be from 10 ms to 10 minutes".to_owned()));
        }
        if self.concurrency == 0 || self.concurrency > 1_000 {
            return Err(wrong("the concurrency must be from 1 to 1000".to_owned()));
        }
        Ok(())
    }

    /// How long a connection may take: less than an answer, so that the two can be told apart.
    pub(super) fn connecting(&self) -> Duration {
        self.connect_timeout.min(self.timeout / 2)
    }

    /// The URL, if requests may go there. The error does not repeat it: it may hold a password.
    pub(super) fn url(&self) -> Result<Url> {
        let url = Url::parse(&self.url)
            .map_err(|error| wrong(format!("this is no URL ({error}); write it as in https://host/path")))?;
        let host = url.host_str().unwrap_or_default();
        match url.scheme() {
            "https" => {}
            "http" if self.plaintext || is_loopback(&url) => {}
            "http" => {
                let what = format!("http: to {host} sends messages in the clear");
                return Err(wrong(format!(
                    "{what}; write https:, or set `plaintext` if that is what you want"
                )));
            }
            scheme => {
                return Err(wrong(format!("the scheme '{scheme}' is not HTTP's; write https: or http:")));
            }
        }
        let reach = Reach::of(&url, self.private);
        if let Some(what) = literal(&url).and_then(|address| reach.refuses(address)) {
            let what = format!("the address {host} is {what}");
            return Err(wrong(format!("{what}; set `private` if it should be called all the same")));
        }
        Ok(url)
    }
}

impl fmt::Debug for EndpointConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = Url::parse(&self.url).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("EndpointConfig")
            .field("url", &place)
            .field("secrets", &self.secrets)
            .field("headers", &headers)
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("private", &self.private)
            .field("plaintext", &self.plaintext)
            .field("ca_file", &self.ca_file)
            .field("source", &self.source)
            .field("concurrency", &self.concurrency)
            .finish()
    }
}

fn wrong(what: String) -> Error {
    Error::new(ErrorKind::Config, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(change: impl FnOnce(&mut EndpointConfig)) -> String {
        let mut config = EndpointConfig::new("https://u:canary@shop.example/canary?t=canary");
        config.headers.push(("x-key".into(), Template::parse("canary {id}").unwrap()));
        assert!(config.check().is_ok());
        change(&mut config);
        let error = config.check().unwrap_err();
        let shown = format!("{error} {config:?}");
        assert!(error.kind() == ErrorKind::Config && !shown.contains("canary"), "{shown}");
        error.to_string()
    }

    #[test]
    fn what_cannot_work_is_told_at_once_and_without_secrets() {
        let header = |name: &str| (name.to_owned(), Template::parse("x").unwrap());
        assert!(told(|config| config.url = "u:canary".into()).contains("scheme 'u'"));
        assert!(told(|config| config.url = "https://u:canary@".into()).contains("no URL"));
        assert!(told(|config| config.url = "ftp://u:canary@host".into()).contains("'ftp' is not HTTP's"));
        assert!(told(|config| config.headers.push(header("a b"))).contains("'a b'"));
        assert!(told(|config| config.headers.push(header("X-Key"))).contains("twice"));
        assert!(
            told(|config| config.headers.push(header("Authorization"))).contains("leave one of them out")
        );
        for name in ["Host", "content-length", "transfer-encoding", "webhook-id", "ce-id"] {
            assert!(
                told(|config| config.headers.push(header(name))).contains("the request itself"),
                "{name}"
            );
        }
        assert!(told(|config| config.timeout = Duration::ZERO).contains("time limit"));
        assert!(told(|config| config.concurrency = 0).contains("concurrency"));
    }

    #[test]
    fn d9_plain_http_and_private_addresses_need_permission() {
        assert!(told(|config| config.url = "http://shop.example/".into()).contains("in the clear"));
        for url in
            ["https://10.0.0.1/", "https://[fd00::1]/", "https://169.254.169.254/", "https://0x0a000001/"]
        {
            assert!(told(|config| config.url = url.into()).contains("set `private`"), "{url}");
        }
        let mut config = EndpointConfig::new("http://10.0.0.1/");
        (config.private, config.plaintext) = (true, true);
        assert!(config.check().is_ok());
        for url in ["http://localhost:8080/events", "http://127.0.0.1/", "http://[::1]/"] {
            assert!(EndpointConfig::new(url).check().is_ok(), "{url}");
        }
    }
}

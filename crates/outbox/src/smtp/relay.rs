//! Where letters go and how to log in, from one URL.

use std::fmt;
use std::net::IpAddr;

use url::Url;

use crate::error::{Error, ErrorKind, Result};

/// A server that takes letters.
///
/// ```
/// # use outbox::smtp::Relay;
/// let relay = Relay::parse("smtps://shop%40x.example:s3cret@mail.example")?;
/// assert_eq!((relay.host(), relay.port(), relay.user()), ("mail.example", 465, Some("shop@x.example")));
/// assert_eq!(relay.to_string(), "smtps://mail.example:465");
/// # Ok::<(), outbox::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Relay {
    host: String,
    port: u16,
    /// TLS from the first byte; otherwise by STARTTLS.
    implicit: bool,
    login: Option<(String, String)>,
}

impl Relay {
    /// Reads `smtps://[user:password@]host[:465]`, with TLS from the first byte, or `smtp://…[:587]`, with STARTTLS.
    /// The error does not repeat what was typed, which may hold a password.
    pub fn parse(url: &str) -> Result<Self> {
        let example = "write smtps://user:password@host or smtp://host:587";
        let url = Url::parse(url).map_err(|error| wrong(format!("this is no URL ({error}); {example}")))?;
        let implicit = match url.scheme() {
            "smtps" => true,
            "smtp" => false,
            scheme => return Err(wrong(format!("the scheme '{scheme}' is not that of e-mail; {example}"))),
        };
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(wrong(format!("the host is missing; {example}")));
        }
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong(format!("nothing may stand after the host; {example}")));
        }
        let login = match (url.username(), url.password()) {
            ("", None) => None,
            ("", Some(_)) | (_, None) => {
                return Err(wrong(format!("user and password belong together; {example}")));
            }
            (user, Some(password)) => Some((decode(user)?, decode(password)?)),
        };
        let port = url.port().unwrap_or(if implicit { 465 } else { 587 });
        Ok(Self { host, port, implicit, login })
    }

    /// The host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the connection is encrypted from its first byte.
    pub fn is_implicit(&self) -> bool {
        self.implicit
    }

    /// Who we are to the server, if it wants to know.
    pub fn user(&self) -> Option<&str> {
        self.login.as_ref().map(|(user, _)| user.as_str())
    }

    pub(super) fn login(&self) -> Option<&(String, String)> {
        self.login.as_ref()
    }

    /// Whether the host is literally this machine.
    pub(super) fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    }
}

/// Without user and password.
impl fmt::Display for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, implicit, .. } = self;
        let scheme = if *implicit { "smtps" } else { "smtp" };
        if host.contains(':') {
            write!(f, "{scheme}://[{host}]:{port}")
        } else {
            write!(f, "{scheme}://{host}:{port}")
        }
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Relay({self})")
    }
}

fn wrong(what: String) -> Error {
    Error::new(ErrorKind::Config, what)
}

/// Turns `%40` into `@`, and so on. A plus sign is one.
fn decode(text: &str) -> Result<String> {
    let query = format!("v={}", text.replace('+', "%2B"));
    let decoded = url::form_urlencoded::parse(query.as_bytes()).next().map(|(_, value)| value.into_owned());
    let decoded = decoded.unwrap_or_default();
    if decoded.contains(['\u{fffd}', '\r', '\n', '\0']) {
        return Err(wrong("user or password is no text that SMTP can carry".to_owned()));
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_and_how_to_log_in() {
        let relay = Relay::parse("smtp://u+1%25:p%3Aa%40%2F%26s@mail.example:2525/").unwrap();
        assert_eq!(relay.login(), Some(&("u+1%".to_owned(), "p:a@/&s".to_owned())));
        assert_eq!((relay.to_string().as_str(), relay.is_implicit()), ("smtp://mail.example:2525", false));
        assert!(!format!("{relay:?} {relay}").contains("a@"));
        assert_eq!(Relay::parse("smtp://[::1]").unwrap().to_string(), "smtp://[::1]:587");
        for url in ["smtp://localhost", "smtp://LOCALHOST", "smtp://127.9.9.9:25", "smtps://[::1]"] {
            assert!(Relay::parse(url).unwrap().is_loopback(), "{url}");
        }
        assert!(!Relay::parse("smtp://localhost.example").unwrap().is_loopback());
    }

    #[test]
    fn a_mistake_is_told_without_the_password() {
        for (url, told) in [
            ("http://a:canary@host", "'http' is not that of e-mail"),
            ("canary", "no URL"),
            ("smtp:///canary", "host is missing"),
            ("smtp://a:canary@host/path", "after the host"),
            ("smtp://a:canary@host?tls=no", "after the host"),
            ("smtp://canary@host", "belong together"),
            ("smtp://a:canary%0d@host", "can carry"),
            ("smtp://a:canary%ff@host", "can carry"),
        ] {
            let error = Relay::parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            let error = error.to_string();
            assert!(error.contains(told) && !error.contains("canary"), "{error}");
        }
    }
}

//! Where a cluster is and how to log in, from one URL.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// The port of a broker that names none.
const PORT: u16 = 9092;

/// The brokers by which a client enters a cluster.
///
/// ```
/// # use outbox::kafka::{Brokers, Mechanism};
/// let brokers = Brokers::parse("kafka+ssl://relay:s3cret@one.example,two.example:9093?sasl=scram-sha-512")?;
/// assert_eq!(brokers.servers(), "one.example:9092,two.example:9093");
/// assert_eq!(brokers.login().map(|login| login.mechanism), Some(Mechanism::ScramSha512));
/// assert_eq!(brokers.to_string(), "kafka+ssl://one.example:9092,two.example:9093");
/// # Ok::<(), outbox::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Brokers {
    servers: Vec<(String, u16)>,
    tls: bool,
    login: Option<Login>,
}

/// Who we are to the cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password, unless it comes from elsewhere.
    pub password: Option<String>,
    /// How the password is proved.
    pub mechanism: Mechanism,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.user, self.mechanism.as_str())
    }
}

/// How a password is proved (SASL).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mechanism {
    /// It is sent as it is; wants TLS.
    #[default]
    Plain,
    /// It is not sent.
    ScramSha256,
    /// It is not sent.
    ScramSha512,
}

impl Mechanism {
    const ALL: [Self; 3] = [Self::Plain, Self::ScramSha256, Self::ScramSha512];

    /// The word for it in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::ScramSha256 => "scram-sha-256",
            Self::ScramSha512 => "scram-sha-512",
        }
    }
}

impl Brokers {
    /// Reads `kafka://[user[:password]@]host[:port][,host[:port]…][?sasl=…]`; `kafka+ssl://` is the same with TLS, and a
    /// bare list of hosts is `kafka://`. The error does not repeat what was typed, which may hold a password.
    pub fn parse(url: &str) -> Result<Self> {
        let (tls, rest) = match url.split_once("://") {
            None => (false, url),
            Some(("kafka", rest)) => (false, rest),
            Some(("kafka+ssl", rest)) => (true, rest),
            Some((scheme, _)) if is_word(scheme) => {
                return wrong(format!(
                    "the scheme '{scheme}' is not Kafka's; write kafka:// or kafka+ssl://"
                ));
            }
            Some(_) => return wrong("there is no scheme; write kafka:// or kafka+ssl://"),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (userinfo, hosts) =
            rest.rsplit_once('@').map_or((None, rest), |(user, hosts)| (Some(user), hosts));
        let hosts = hosts.strip_suffix('/').unwrap_or(hosts);
        let servers = hosts.split(',').map(server).collect::<Result<_>>()?;
        let mechanism = mechanism(query)?;
        let login = match userinfo {
            Some(userinfo) => Some(login(userinfo, mechanism.unwrap_or_default())?),
            None if mechanism.is_some() => return wrong("'sasl' needs a user; write kafka://user@host"),
            None => None,
        };
        Ok(Self { servers, tls, login })
    }

    /// The hosts, without their ports.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|(host, _)| host.as_str())
    }

    /// The list that a client begins with: `host:port,host:port`.
    pub fn servers(&self) -> String {
        let servers = self.servers.iter().map(|(host, port)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        });
        servers.collect::<Vec<_>>().join(",")
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Who we are, if the cluster wants to know.
    pub fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }
}

/// Without user and password.
impl fmt::Display for Brokers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "kafka+ssl" } else { "kafka" }, self.servers())
    }
}

impl fmt::Debug for Brokers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Brokers({self})")
    }
}

fn wrong<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::new(ErrorKind::Config, what))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

fn server(text: &str) -> Result<(String, u16)> {
    let (host, port) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
    if host.is_empty() || !host.chars().all(is_host) {
        return wrong("a host is missing or malformed; write kafka://host:9092,host:9092");
    }
    let port = match port {
        None => PORT,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return wrong(format!("the port of '{host}' is no number from 1 to 65535")),
        },
    };
    Ok((host.to_owned(), port))
}

fn login(userinfo: &str, mechanism: Mechanism) -> Result<Login> {
    let (user, password) =
        userinfo.split_once(':').map_or((userinfo, None), |(user, password)| (user, Some(password)));
    let user = decode(user)?;
    if user.is_empty() {
        return wrong("the user is empty; write kafka://user@host");
    }
    Ok(Login { user, password: password.map(decode).transpose()?, mechanism })
}

fn mechanism(query: &str) -> Result<Option<Mechanism>> {
    let mut found = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let Some(word) = pair.strip_prefix("sasl=") else {
            return wrong("after '?' only 'sasl' is known, as in ?sasl=scram-sha-256");
        };
        let named =
            Mechanism::ALL.into_iter().find(|mechanism| mechanism.as_str().eq_ignore_ascii_case(word));
        let Some(named) = named else {
            return wrong("'sasl' must be one of: plain, scram-sha-256, scram-sha-512");
        };
        found = Some(named);
    }
    Ok(found)
}

/// Turns `%40` into `@`, and so on.
fn decode(text: &str) -> Result<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.map(|hex| u8::from_str_radix(hex, 16)) {
            Some(Ok(byte)) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ if *first == b'%' => {
                return wrong("a '%' in user or password is followed by no two hex digits; write %25");
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => wrong("user or password is not UTF-8 text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(url: &str) -> String {
        let error = Brokers::parse(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let told = error.to_string();
        assert!(!told.contains("canary"), "{told}");
        told
    }

    #[test]
    fn a_url_says_where_and_how_to_log_in() {
        let plain = Brokers::parse("localhost:1234").unwrap();
        assert_eq!(
            (plain.servers().as_str(), plain.is_tls(), plain.login()),
            ("localhost:1234", false, None)
        );
        let many = Brokers::parse("kafka://one,[::1]:7,10.0.0.1/").unwrap();
        assert_eq!(many.servers(), "one:9092,[::1]:7,10.0.0.1:9092");
        assert_eq!(many.hosts().collect::<Vec<_>>(), ["one", "::1", "10.0.0.1"]);
        let guarded = Brokers::parse("kafka+ssl://a%40b:p%2F%3A@c@host?sasl=SCRAM-SHA-256").unwrap();
        let login = guarded.login().unwrap();
        assert_eq!((login.user.as_str(), login.password.as_deref()), ("a@b", Some("p/:@c")));
        assert_eq!(login.mechanism, Mechanism::ScramSha256);
        assert!(guarded.is_tls());
        let shown = format!("{guarded} {guarded:?} {login:?}");
        assert!(!shown.contains("p/:@c"), "{shown}");
        assert_eq!(Brokers::parse("kafka://a@h").unwrap().login().unwrap().password, None);
    }

    #[test]
    fn a_mistake_is_told_without_the_password() {
        assert!(broken("http://a:canary@host").contains("'http' is not Kafka's"));
        assert!(broken("kafka://a:canary@").contains("host is missing"));
        assert!(broken("kafka://a:canary@host:x").contains("port of 'host'"));
        assert!(broken("kafka://a:canary@host:0").contains("port of 'host'"));
        assert!(broken("kafka://a:canary@one,,two").contains("host is missing"));
        assert!(broken("kafka://:canary@host").contains("user is empty"));
        assert!(broken("kafka://a:can%ary@host").contains("%25"));
        assert!(broken("kafka://host?sasl=plain").contains("needs a user"));
        assert!(broken("kafka://a:canary@host?sasl=kerberos").contains("must be one of"));
        assert!(broken("kafka://a:canary@host?ssl=true").contains("only 'sasl'"));
        assert!(broken("kafka://host/topic").contains("malformed"));
    }
}

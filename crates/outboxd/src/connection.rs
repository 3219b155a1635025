//! A connection: its kind by the scheme of its URL, its secrets put in, its transport checked.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use outbox::kafka::Brokers;
use outbox::smtp::Relay;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::{Host, Url};

use crate::mistake::did_you_mean;
use crate::secret::{Secret, SecretUrl, mask};
use crate::trouble::Trouble;

/// What a connection leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A SQLite file.
    Sqlite,
    /// A PostgreSQL database.
    Postgres,
    /// A MariaDB or MySQL database.
    MySql,
    /// A RabbitMQ virtual host.
    Amqp,
    /// A Kafka cluster.
    Kafka,
    /// A mail server.
    Smtp,
}

impl Kind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::MySql => "mysql",
            Self::Amqp => "amqp",
            Self::Kafka => "kafka",
            Self::Smtp => "smtp",
        }
    }

    /// Whether it keeps tables.
    pub fn is_database(self) -> bool {
        matches!(self, Self::Sqlite | Self::Postgres | Self::MySql)
    }
}

/// The schemes, with what they lead to; those with nothing are planned.
const SCHEMES: [(&str, Option<Kind>); 15] = [
    ("sqlite", Some(Kind::Sqlite)),
    ("postgres", Some(Kind::Postgres)),
    ("postgresql", Some(Kind::Postgres)),
    ("mysql", Some(Kind::MySql)),
    ("mariadb", Some(Kind::MySql)),
    ("amqp", Some(Kind::Amqp)),
    ("amqps", Some(Kind::Amqp)),
    ("kafka", Some(Kind::Kafka)),
    ("kafka+ssl", Some(Kind::Kafka)),
    ("smtp", Some(Kind::Smtp)),
    ("smtps", Some(Kind::Smtp)),
    ("nats", None),
    ("redis", None),
    ("http", None),
    ("https", None),
];

/// What must be encoded in the path of a file, to be no other part of a URL.
const IN_PATH: AsciiSet = CONTROLS.add(b'%').add(b'?').add(b'#');

/// A checked connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Its name in the configuration.
    pub name: String,
    /// What it leads to.
    pub kind: Kind,
    /// Where it leads.
    pub url: SecretUrl,
    /// Whether it may go unencrypted to another host.
    pub plaintext: bool,
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.url)
    }
}

/// What breaks a rule, and what to do.
type Rule = (String, String);

fn rule<T>(what: impl Into<String>, help: impl Into<String>) -> Result<T, Rule> {
    Err((what.into(), help.into()))
}

impl Connection {
    /// Checks a URL; `base` is where relative paths of files start.
    pub fn parse(
        name: &str,
        url: &str,
        password: Option<&Secret>,
        plaintext: bool,
        base: &Path,
    ) -> Result<Self, Rule> {
        let kind = kind_of(url)?;
        let url = match kind {
            Kind::Sqlite if password.is_some() => {
                return rule("has a password, which SQLite does not know", "remove 'password_file'");
            }
            Kind::Sqlite => sqlite_url(url, base)?,
            Kind::Postgres | Kind::MySql | Kind::Amqp | Kind::Smtp => {
                server_url(kind, url, password, plaintext)?
            }
            Kind::Kafka => kafka_url(url, password, plaintext)?,
        };
        if kind == Kind::Smtp
            && let Err(error) = Relay::parse(&url)
        {
            return rule(error.to_string(), "set 'password_file', or write smtps://user:password@host");
        }
        Ok(Self { name: name.to_owned(), kind, url: SecretUrl::new(url), plaintext })
    }

    /// The file of a SQLite database.
    pub fn sqlite_file(&self) -> Option<PathBuf> {
        let path = self.url.reveal().strip_prefix("sqlite://").filter(|_| self.kind == Kind::Sqlite)?;
        let path = path.split('?').next().unwrap_or_default();
        Some(PathBuf::from(&*percent_decode_str(path).decode_utf8_lossy()))
    }
}

fn kind_of(url: &str) -> Result<Kind, Rule> {
    let known = || SCHEMES.iter().filter(|(_, kind)| kind.is_some()).map(|(scheme, _)| *scheme);
    let list = known().map(|scheme| format!("{scheme}:")).collect::<Vec<_>>().join(", ");
    let scheme = url.split_once(':').map(|(scheme, _)| scheme).unwrap_or_default();
    if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
        return rule("has no scheme", format!("a URL begins with one of {list}"));
    }
    match SCHEMES.iter().find(|(name, _)| *name == scheme) {
        Some((_, Some(kind))) => Ok(*kind),
        Some((_, None)) => {
            rule(format!("the scheme '{scheme}' is not supported yet"), format!("supported are {list}"))
        }
        None => {
            let help = did_you_mean(scheme, known());
            let help = if help.starts_with("did") {
                format!("{help} Known are {list}")
            } else {
                format!("known are {list}")
            };
            rule(format!("the scheme '{scheme}' is unknown"), help)
        }
    }
}

/// An absolute `sqlite://` URL, so that the file does not depend on where the program is started.
fn sqlite_url(url: &str, base: &Path) -> Result<String, Rule> {
    let rest = url.trim_start_matches("sqlite:");
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    if path.is_empty() || path == ":memory:" || query.is_some_and(|query| query.contains("mode=memory")) {
        return rule("names no file", "an outbox must outlive the process: write sqlite:path/to/file.db");
    }
    let path = percent_decode_str(path).decode_utf8().map(|path| base.join(&*path));
    let Some(path) = path.as_deref().ok().and_then(Path::to_str) else {
        return rule("is a path that is not UTF-8", "rename the file or its folder");
    };
    let path = utf8_percent_encode(path, &IN_PATH);
    Ok(match query {
        Some(query) => format!("sqlite://{path}?{query}"),
        None => format!("sqlite://{path}"),
    })
}

fn server_url(kind: Kind, text: &str, password: Option<&Secret>, plaintext: bool) -> Result<String, Rule> {
    let mut url = match Url::parse(text) {
        Ok(url) if url.has_authority() => url,
        Ok(_) => return rule("has no host", format!("write {}://user@host/name", kind.as_str())),
        Err(error) => {
            let help =
                "write scheme://user@host:port/name, and encode special characters: @ is %40, / is %2F";
            return rule(format!("is no URL: {error}"), help);
        }
    };
    if let Some(password) = password {
        if url.password().is_some() {
            return rule("has a password, and there is a 'password_file'", "keep one of the two");
        }
        if url.username().is_empty() || url.set_password(Some(password.reveal())).is_err() {
            return rule(
                "names no user for the password",
                format!("write {}://user@host/name", kind.as_str()),
            );
        }
    }
    let remote = !is_local(kind, &url);
    match kind {
        Kind::Amqp if remote && !plaintext && url.scheme() == "amqp" => {
            let help = "use amqps://, or set plaintext = true on the connection if the network is trusted";
            return rule("would send unencrypted to another host", help);
        }
        Kind::Postgres => check_tls(&mut url, &POSTGRES_TLS, remote, plaintext)?,
        Kind::MySql => check_tls(&mut url, &MYSQL_TLS, remote, plaintext)?,
        Kind::Amqp | Kind::Kafka | Kind::Sqlite | Kind::Smtp => {}
    }
    Ok(url.into())
}

/// How a driver is told to encrypt: its parameter, and its modes from the weakest.
struct Tls {
    parameter: &'static str,
    may_be_plain: &'static [&'static str],
    encrypted: &'static [&'static str],
    verified: &'static str,
}

const POSTGRES_TLS: Tls = Tls {
    parameter: "sslmode",
    may_be_plain: &["disable", "allow", "prefer"],
    encrypted: &["require", "verify-ca", "verify-full"],
    verified: "verify-full",
};

const MYSQL_TLS: Tls = Tls {
    parameter: "ssl-mode",
    may_be_plain: &["DISABLED", "PREFERRED"],
    encrypted: &["REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"],
    verified: "VERIFY_IDENTITY",
};

/// A list of brokers, which is no URL to other programs.
fn kafka_url(text: &str, password: Option<&Secret>, plaintext: bool) -> Result<String, Rule> {
    let brokers = match Brokers::parse(text) {
        Ok(brokers) => brokers,
        Err(error) => {
            let help = "write kafka+ssl://user@host:9092,host:9092, and encode special characters: @ is %40, / is %2F";
            return rule(format!("is no list of brokers: {error}"), help);
        }
    };
    let has_password = brokers.login().map(|login| login.password.is_some());
    let text = match (password, has_password) {
        (Some(_), Some(true)) => {
            return rule("has a password, and there is a 'password_file'", "keep one of the two");
        }
        (Some(_), None) => return rule("names no user for the password", "write kafka://user@host"),
        (None, Some(false)) => {
            return rule(
                "names a user without a password",
                "set 'password_file', or write kafka://user:password@host",
            );
        }
        (Some(password), Some(false)) => {
            let (before, after) = text.rsplit_once('@').unwrap_or((text, ""));
            format!("{before}:{}@{after}", utf8_percent_encode(password.reveal(), NON_ALPHANUMERIC))
        }
        (None, Some(true) | None) => text.to_owned(),
    };
    if !brokers.is_tls() && !plaintext && !brokers.hosts().all(is_local_host) {
        let help = "use kafka+ssl://, or set plaintext = true on the connection if the network is trusted";
        return rule("would send unencrypted to another host", help);
    }
    Ok(text)
}

/// Remote hosts are verified unless the URL or the person says otherwise.
fn check_tls(url: &mut Url, tls: &Tls, remote: bool, plaintext: bool) -> Result<(), Rule> {
    let (parameter, verified) = (tls.parameter, tls.verified);
    let is_mode = |name: &str| name == "sslmode" || name == "ssl-mode";
    // All of them: which one of several holds is the driver's business.
    let modes = url.query_pairs().filter(|(name, _)| is_mode(name)).map(|(_, value)| value.into_owned());
    let modes: Vec<String> = modes.collect();
    for mode in &modes {
        let is_one_of = |known: &[&str]| known.iter().any(|other| other.eq_ignore_ascii_case(mode));
        if is_one_of(tls.may_be_plain) {
            if remote && !plaintext {
                let help = format!(
                    "use {parameter}={verified}, or set plaintext = true on the connection if the network is trusted"
                );
                return rule(format!("may go unencrypted to another host ({parameter}={mode})"), help);
            }
        } else if !is_one_of(tls.encrypted) {
            let known = tls.may_be_plain.iter().chain(tls.encrypted).copied();
            return rule(format!("has an unknown {parameter} '{}'", mask(mode)), did_you_mean(mode, known));
        }
    }
    if modes.is_empty() && remote && !plaintext {
        url.query_pairs_mut().append_pair(parameter, verified);
    }
    Ok(())
}

/// Whether nothing leaves this machine: loopback, or a socket in the file system.
fn is_local(kind: Kind, url: &Url) -> bool {
    // What the driver would ignore must not make a host look local.
    let elsewhere: &[&str] = match kind {
        Kind::MySql => &["socket"],
        _ => &["host", "hostaddr"],
    };
    if let Some((name, host)) = url.query_pairs().find(|(name, _)| elsewhere.contains(&&**name)) {
        return name == "socket" || is_local_host(&host);
    }
    is_this_machine(url)
}

/// Whether the host of a URL is this machine; one without a host is.
pub fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        None => true,
        Some(Host::Domain(host)) => is_local_host(host),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
    }
}

fn is_local_host(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    host.is_empty()
        || host == "localhost"
        || host.ends_with(".localhost")
        || host.starts_with('/')
        || host.starts_with("%2f")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// What is said where a proxy is asked for and there is nothing that it could stand before.
pub fn no_kafka() -> Trouble {
    Trouble::usage(
        "--kafka-proxy without Kafka",
        "leave it out, or add a broker of Kafka under [connections]",
    )
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;

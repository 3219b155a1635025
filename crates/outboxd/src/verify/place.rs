//! Where a run takes place: a folder, a database, perhaps a broker, the proxies before them, and the configuration
//! of the relays.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use faults::Proxy;
use tempfile::TempDir;
use url::Url;

use super::fault::Side;
use super::tag::Run;
use crate::connection::{Connection, Kind, no_kafka};
use crate::trouble::{Exit, Trouble};

/// So short that a relay that is gone is soon replaced, and so long that a busy machine keeps it.
pub(super) const LEASE: Duration = Duration::from_millis(1500);

/// Where nothing is broken nobody has to be replaced: as by default, so that a machine that is far too busy keeps it, too.
pub(super) const CALM_LEASE: Duration = Duration::from_secs(30);

/// Relays share these by key.
pub(super) const LANES: u64 = 4;
const BATCH: u64 = 20;
const DEPTH: u64 = 2;

/// What all relays together have in flight at most.
pub(super) const WINDOW: u64 = LANES * LANE_WINDOW;

/// The same for one lane.
pub(super) const LANE_WINDOW: u64 = BATCH * DEPTH;

/// The folder of a run; removed unless something is wrong, or somebody chose it.
pub(super) enum Folder {
    Temporary(TempDir),
    Chosen(PathBuf),
}

impl Folder {
    pub(super) fn new(chosen: Option<PathBuf>) -> anyhow::Result<Self> {
        let Some(folder) = chosen else {
            return Ok(Self::Temporary(tempfile::Builder::new().prefix("outboxd-verify-").tempdir()?));
        };
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let folder = folder.canonicalize()?;
        if folder.join("verify.toml").exists() {
            let what = format!("{} holds an earlier run", folder.display());
            return Err(Trouble::usage(what, "choose another folder with --dir, or remove this one").into());
        }
        Ok(Self::Chosen(folder))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Chosen(folder) => folder,
        }
    }

    /// Keeps it for somebody to look at.
    pub(super) fn keep(self) -> PathBuf {
        match self {
            Self::Temporary(folder) => folder.keep(),
            Self::Chosen(folder) => folder,
        }
    }
}

/// The servers of a run.
pub(super) struct Servers {
    /// Where the log and the effects are.
    pub(super) database: Connection,
    /// Where messages go; a file without.
    pub(super) broker: Option<Connection>,
}

impl Servers {
    /// A SQLite file in the folder, and no broker.
    pub(super) fn embedded(folder: &Path) -> anyhow::Result<Self> {
        let url = format!("sqlite:{}", folder.join("verify.db").display());
        let database = Connection::parse("db", &url, None, false, folder);
        let database = database.map_err(|(what, help)| Trouble::new(Exit::Failed, what, help))?;
        Ok(Self { database, broker: None })
    }

    /// Those of a configuration: one database, and at most one broker.
    pub(super) fn of(connections: &BTreeMap<String, Connection>) -> Result<Self, Trouble> {
        let only = |what: &str, fits: &dyn Fn(Kind) -> bool| {
            let mut found = connections.values().filter(|connection| fits(connection.kind));
            match (found.next(), found.next()) {
                (Some(one), Some(two)) => Err(Trouble::usage(
                    format!("there are several {what}s, '{}' and '{}'", one.name, two.name),
                    "write a configuration for this with [connections] to one database and to one broker at most",
                )),
                (one, _) => Ok(one.cloned()),
            }
        };
        let database = only("database", &|kind| matches!(kind, Kind::Sqlite | Kind::Postgres))?;
        let broker = only("broker", &|kind| matches!(kind, Kind::Amqp | Kind::Kafka))?;
        let Some(database) = database else {
            let help = "add one under [connections], with a URL that begins with postgres: or sqlite:";
            return Err(Trouble::usage("there is no database in which a log could be", help));
        };
        if broker.as_ref().is_some_and(|broker| broker.kind == Kind::Kafka) && !cfg!(feature = "kafka") {
            let help = crate::backends::REBUILD.unwrap_or_default();
            return Err(Trouble::usage("this program was built without Kafka", help));
        }
        Ok(Self { database, broker })
    }

    /// What is on the other side.
    pub(super) fn side(&self, side: Side) -> Option<&Connection> {
        match side {
            Side::Database => Some(&self.database),
            Side::Broker => self.broker.as_ref(),
        }
    }
}

/// Proxies between the relays and their servers, where one can be.
pub(super) struct Network {
    database: Result<Proxy, String>,
    broker: Result<Proxy, String>,
}

impl Network {
    /// `kafka_proxy` is where a broker of Kafka says that it is.
    pub(super) async fn before(servers: &Servers, kafka_proxy: Option<SocketAddr>) -> anyhow::Result<Self> {
        let broker = match (&servers.broker, kafka_proxy) {
            #[cfg(feature = "kafka")]
            (Some(broker), Some(address)) if broker.kind == Kind::Kafka => {
                Ok(crate::raw_kafka::proxy(broker, address).await?)
            }
            (_, Some(_)) => return Err(no_kafka().into()),
            (Some(broker), None) => proxy(broker).await,
            (None, None) => Err("there is no broker".to_owned()),
        };
        Ok(Self { database: proxy(&servers.database).await, broker })
    }

    /// The proxy, or why there is none.
    pub(super) fn side(&self, side: Side) -> Result<&Proxy, &str> {
        let proxy = match side {
            Side::Database => &self.database,
            Side::Broker => &self.broker,
        };
        proxy.as_ref().map_err(String::as_str)
    }

    /// The URL by which relays reach it.
    fn url(&self, side: Side, connection: &Connection) -> anyhow::Result<String> {
        let url = connection.url.reveal();
        Ok(match self.side(side) {
            Ok(proxy) => {
                proxy.reroute(url).map_err(|_| anyhow::anyhow!("cannot lead {connection} through a proxy"))?
            }
            Err(_) => url.to_owned(),
        })
    }
}

/// A proxy before a server, or why there can be none.
async fn proxy(connection: &Connection) -> Result<Proxy, String> {
    let port = match connection.kind {
        Kind::Postgres => 5432,
        Kind::Amqp => 5672,
        Kind::Sqlite => return Err("SQLite is a file, and nothing is between it and a relay".to_owned()),
        _ => {
            return Err(
                "clients of Kafka go to the address that it announces; put a proxy there with --kafka-proxy"
                    .to_owned(),
            );
        }
    };
    let Ok(url) = Url::parse(connection.url.reveal()) else { return Err("its address is no URL".to_owned()) };
    let is_verified =
        url.scheme() == "amqps" || url.query_pairs().any(|(_, value)| value.starts_with("verify"));
    if is_verified {
        return Err("its certificate is verified, and a proxy has another name".to_owned());
    }
    let elsewhere = url.query_pairs().any(|(name, _)| name == "host" || name == "hostaddr");
    let host = url.host_str().filter(|host| !host.is_empty() && !elsewhere && !host.starts_with("%2"));
    let Some(host) = host else { return Err("it is reached by a socket in the file system".to_owned()) };
    let target = format!("{host}:{}", url.port().unwrap_or(port));
    Proxy::to(target.as_str()).await.map_err(|error| format!("a proxy could not be made: {error:#}"))
}

/// The names of what the run makes on a broker.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// The exchange or the topic to which relays send.
    pub(super) target: String,
    /// RabbitMQ: the exchange behind it, to which the queues are bound, so that one unbinding cuts off both.
    pub(super) inner: String,
    /// RabbitMQ: the queue of the recorder.
    pub(super) recorded: String,
    /// RabbitMQ: the queue from which effects are made. Kafka: the group.
    pub(super) effects: String,
}

/// The delays of a consumer; what fails may fail often here.
pub(super) const RETRIES: [&str; 2] = ["200ms", "1s"];

impl Names {
    pub(super) fn of(run: Run) -> Self {
        let target = format!("outboxd-verify-{}", run.name());
        Self {
            inner: format!("{target}.inner"),
            recorded: format!("{target}.recorded"),
            effects: format!("{target}.effects"),
            target,
        }
    }
}

/// Where lines go when there is no broker.
pub(super) fn lines(folder: &Path) -> PathBuf {
    folder.join("events.jsonl")
}

/// Writes the configuration of the relays; only its owner may read it.
pub(super) fn write_config(
    folder: &Path,
    servers: &Servers,
    network: &Network,
    names: &Names,
    lease: Duration,
) -> anyhow::Result<PathBuf> {
    let path = folder.join("verify.toml");
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(config(folder, servers, network, names, lease)?.as_bytes())?;
    Ok(path)
}

fn config(
    folder: &Path,
    servers: &Servers,
    network: &Network,
    names: &Names,
    lease: Duration,
) -> anyhow::Result<String> {
    let mut text = format!("# Made by `outboxd verify`.\n{}", connection("db", &servers.database, network)?);
    let timeout = lease.as_millis() / 2;
    let (sink, effects_from) = match &servers.broker {
        None => (format!("file = {}", quoted(&lines(folder).display().to_string())), "log"),
        Some(broker) => {
            text += &connection("broker", broker, network)?;
            text += &source(broker.kind, names);
            let Names { target, .. } = names;
            let sink = match broker.kind {
                Kind::Amqp => format!("exchange = \"{target}\"\nkind = \"topic\"\ntopology = \"check\""),
                _ => format!("topic = \"{target}\""),
            };
            (format!("on = \"broker\"\n{sink}\ntimeout = \"{timeout}ms\""), "effects")
        }
    };
    text += &format!(
        "[sources.log]\non = \"db\"\n\n[sinks.recorded]\n{sink}\n\n\
         [sinks.effects]\non = \"db\"\nsql = \"INSERT INTO outboxd_verify_effects (id) VALUES (:id)\"\ntimeout = \"{timeout}ms\"\n\n"
    );
    let common = format!(
        "batch = {BATCH}\ndepth = {DEPTH}\npoll = \"50ms\"\ndrain = \"5s\"\nprobe_first = \"100ms\"\nprobe_most = \"1s\"\n"
    );
    // So many attempts that nothing is dead, whatever happens: a dead message counts as lost here.
    let patience = format!(
        "lanes = {LANES}\nlease = \"{}ms\"\nattempts = 1000\nretry_first = \"100ms\"\nretry_most = \"1s\"\n",
        lease.as_millis()
    );
    text += &format!("[pipes.relay]\nfrom = \"log\"\nto = \"recorded\"\n{common}{patience}\n");
    text += &format!("[pipes.effects]\nfrom = \"{effects_from}\"\nto = \"effects\"\n{common}");
    if effects_from == "log" {
        text += &patience;
    }
    Ok(text)
}

fn connection(name: &str, connection: &Connection, network: &Network) -> anyhow::Result<String> {
    let side = if connection.kind.is_database() { Side::Database } else { Side::Broker };
    let (url, plaintext) = (quoted(&network.url(side, connection)?), connection.plaintext);
    Ok(format!("[connections.{name}]\nurl = {url}\nplaintext = {plaintext}\n\n"))
}

/// What the consumer reads.
fn source(kind: Kind, names: &Names) -> String {
    let Names { target, effects, .. } = names;
    // The last delay many times: a consumer that is disturbed often enough must not give up.
    let [first, last] = RETRIES;
    let delays = std::iter::once(first).chain(std::iter::repeat_n(last, 30));
    let retry = delays.map(|delay| format!("\"{delay}\"")).collect::<Vec<_>>().join(", ");
    let place = match kind {
        Kind::Amqp => format!("queue = \"{effects}\""),
        _ => format!("topic = \"{target}\"\ngroup = \"{effects}\"\nsession_timeout = \"6s\""),
    };
    format!("[sources.effects]\non = \"broker\"\n{place}\nretry = [{retry}]\n\n")
}

/// As TOML writes it. A dollar sign would be read as a variable.
fn quoted(text: &str) -> String {
    toml::Value::String(text.replace("${", "$${")).to_string()
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;

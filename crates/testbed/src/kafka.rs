//! A private Apache Kafka: one node that is broker and controller, with its own ports and folder.

#[cfg(feature = "kafka")]
mod client;
mod config;
#[cfg(feature = "kafka")]
mod mock;

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::leash::{Folder, Leash};
use crate::postgres::again;
use crate::{Missing, blocking, port};

#[cfg(feature = "kafka")]
pub use client::Record;
use config::Ports;
pub use config::{PASSWORD, STRANGER, USER};

/// Where a run's shared broker is: `<port>:<folder>`. Set by `testbed with`.
pub(crate) const SHARED: &str = "OUTBOX_TESTBED_KAFKA";

/// Names the version, for people and for the cache folder.
const POM: &str = include_str!("../kafka/pom.xml");

const START: Duration = Duration::from_secs(180);

/// An Apache Kafka of our own, or librdkafka's mock cluster where Apache Kafka cannot be had.
///
/// The methods that disturb it need `&mut`, so the shared one, a `&'static`, cannot be disturbed.
/// Dropping it ends it and removes its folder; so does the end of this process, whatever its cause.
#[derive(Debug)]
pub struct Kafka {
    broker: Arc<Broker>,
}

#[derive(Debug)]
enum Broker {
    Apache(Box<Apache>),
    #[cfg(feature = "kafka")]
    Mock(mock::Mock),
}

#[derive(Debug)]
struct Apache {
    /// `None` when it is down, and when another process owns it.
    leash: Mutex<Option<Leash>>,
    /// After the leash, since its removal waits for the server. `None` when another process owns it.
    folder: Option<Folder>,
    place: Place,
}

#[derive(Debug)]
struct Place {
    jars: PathBuf,
    folder: PathBuf,
    ports: Ports,
}

impl Kafka {
    /// The broker that all tests of this run share: the one `testbed with` started, or else one of this
    /// process, started by the first test that asks.
    pub async fn shared() -> Result<&'static Self> {
        static BROKER: OnceLock<Result<Kafka>> = OnceLock::new();
        blocking(|| {
            let broker = BROKER.get_or_init(|| match env::var(SHARED) {
                Ok(place) => Self::elsewhere(&place),
                Err(_) => Self::start_or_mock(),
            });
            broker.as_ref().map_err(again)
        })
        .await
    }

    /// A broker of this test's own, to stop or kill. It takes several seconds to start.
    pub async fn start() -> Result<Self> {
        blocking(Self::start_blocking).await
    }

    /// The same with a second port that has TLS and a login: see [`guarded_port`](Self::guarded_port).
    pub async fn start_guarded() -> Result<Self> {
        blocking(|| Self::start_at(Ports { guarded: Some(port::free()?), ..Ports::default() })).await
    }

    /// The same with a second port whose clients are told to go elsewhere, where a proxy may be: see
    /// [`behind`](Self::behind).
    pub async fn start_behind() -> Result<Self> {
        blocking(|| {
            Self::start_at(Ports { behind: Some((port::free()?, port::free()?)), ..Ports::default() })
        })
        .await
    }

    pub(crate) fn start_blocking() -> Result<Self> {
        Self::start_at(Ports::default())
    }

    fn start_or_mock() -> Result<Self> {
        let started = Self::start_blocking();
        #[cfg(feature = "kafka")]
        if started.as_ref().is_err_and(|error| error.is::<Missing>()) {
            let mock = mock::Mock::start()?;
            // Not `eprintln!`: the test harness swallows what a passing test prints with it.
            let _ = writeln!(std::io::stderr(), "testbed: {}", Self::missing_line());
            return Ok(Self { broker: Arc::new(Broker::Mock(mock)) });
        }
        started
    }

    /// With these ports beside those that every broker has.
    fn start_at(more: Ports) -> Result<Self> {
        let jars = jars()?;
        let folder = Folder::create(None)?;
        let ports = Ports { plain: port::free()?, controller: port::free()?, ..more };
        config::write(&folder, ports)?;
        let place = Place { jars, folder: folder.path().to_owned(), ports };
        let apache = Apache { leash: Mutex::new(None), folder: Some(folder), place };
        apache.start()?;
        if ports.guarded.is_some() {
            apache.place.add_scram_users()?;
        }
        Ok(Self { broker: Arc::new(Broker::Apache(Box::new(apache))) })
    }

    fn elsewhere(place: &str) -> Result<Self> {
        let (port, folder) = place.split_once(':').with_context(|| format!("{SHARED}={place}"))?;
        let plain = port.parse().with_context(|| format!("{SHARED}={place}"))?;
        let ports = Ports { plain, ..Ports::default() };
        let place = Place { jars: jars()?, folder: folder.into(), ports };
        let apache = Apache { leash: Mutex::new(None), folder: None, place };
        Ok(Self { broker: Arc::new(Broker::Apache(Box::new(apache))) })
    }

    /// The value of [`SHARED`] with which another process finds this broker.
    pub(crate) fn place(&self) -> Result<String> {
        let Place { folder, ports, .. } = &self.apache()?.place;
        Ok(format!("{}:{}", ports.plain, folder.display()))
    }

    fn apache(&self) -> Result<&Apache> {
        match &*self.broker {
            Broker::Apache(apache) => Ok(apache),
            #[cfg(feature = "kafka")]
            Broker::Mock(_) => bail!("this Kafka is a mock cluster"),
        }
    }

    /// Whether this is not Apache Kafka but librdkafka's mock cluster.
    pub fn is_mock(&self) -> bool {
        self.apache().is_err()
    }

    /// Where a client begins: `host:port`.
    pub fn brokers(&self) -> String {
        match &*self.broker {
            Broker::Apache(apache) => format!("127.0.0.1:{}", apache.place.ports.plain),
            #[cfg(feature = "kafka")]
            Broker::Mock(mock) => mock.brokers().to_owned(),
        }
    }

    /// The same as a URL.
    pub fn url(&self) -> String {
        format!("kafka://{}", self.brokers())
    }

    /// The port on 127.0.0.1 with TLS, a login (PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512) and permissions: [`USER`] may
    /// do anything, [`STRANGER`], known to PLAIN only, nothing; the password of both is [`PASSWORD`]. The certificate is signed by itself:
    /// see [`ca_file`](Self::ca_file).
    pub fn guarded_port(&self) -> Option<u16> {
        self.apache().ok()?.place.ports.guarded
    }

    /// The port whose clients are told to go elsewhere, as a URL; and where they are told to go.
    pub fn behind(&self) -> Option<(String, SocketAddr)> {
        let (port, elsewhere) = self.apache().ok()?.place.ports.behind?;
        Some((format!("kafka://127.0.0.1:{port}"), port::address(elsewhere)))
    }

    /// The certificate of the guarded port, as PEM.
    pub fn ca_file(&self) -> Option<PathBuf> {
        let place = &self.apache().ok()?.place;
        place.ports.guarded.map(|_| place.folder.join(config::CERTIFICATE))
    }

    /// The folder with the broker's files and `kafka.log`.
    pub fn folder(&self) -> Option<&Path> {
        self.apache().ok().map(|apache| apache.place.folder.as_path())
    }

    /// Ends it in good order.
    pub async fn stop(&mut self) -> Result<()> {
        self.end("TERM").await
    }

    /// Kills it, as the power cut would, and returns when it is gone.
    pub async fn kill(&mut self) -> Result<()> {
        self.end("KILL").await
    }

    /// Starts it again after [`stop`](Self::stop) or [`kill`](Self::kill), on the same port.
    pub async fn start_again(&mut self) -> Result<()> {
        let broker = self.broker.clone();
        blocking(move || Self { broker }.apache()?.start()).await
    }

    /// Keeps it from doing anything: it holds its connections and is silent.
    pub async fn pause(&mut self) -> Result<()> {
        self.signal("STOP").await
    }

    /// Lets it go on after [`pause`](Self::pause).
    pub async fn resume(&mut self) -> Result<()> {
        self.signal("CONT").await
    }

    async fn signal(&mut self, signal: &'static str) -> Result<()> {
        let mut leash = self.apache()?.leash.lock().unwrap_or_else(PoisonError::into_inner);
        leash.as_mut().context("this Kafka is not running, or not ours")?.signal(signal)
    }

    async fn end(&mut self, signal: &'static str) -> Result<()> {
        let broker = self.broker.clone();
        blocking(move || {
            let kafka = Self { broker };
            let leash = kafka.apache()?.leash.lock().unwrap_or_else(PoisonError::into_inner).take();
            leash.context("this Kafka is not running, or not ours")?.end(signal)
        })
        .await
    }

    /// What `testbed with` says at the end of a run with Apache Kafka.
    pub(crate) fn used_line() -> String {
        format!("Kafka: the tests ran on Apache Kafka {}", version())
    }

    /// What is said, loudly, at the end of a run without.
    pub(crate) fn missing_line() -> String {
        format!(
            "Kafka: !!! NO APACHE KAFKA {}: the tests of Kafka ran on librdkafka's mock cluster, and those that \
             need a real broker were skipped; run scripts/setup where Maven's registry can be reached !!!",
            version()
        )
    }
}

impl Apache {
    fn start(&self) -> Result<()> {
        let folder = self.folder.as_ref().context("this Kafka is not ours to start")?;
        let mut slot = self.leash.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_some() {
            bail!("this Kafka is running already");
        }
        let mut command = self.place.java();
        command.arg("kafka.Kafka").arg(self.place.folder.join(config::PROPERTIES));
        let leash = folder.leash("kafka", "KILL", &command)?;
        port::until("Kafka to start", START, || {
            leash.check()?;
            Ok(greets(self.place.ports.plain))
        })?;
        *slot = Some(leash);
        Ok(())
    }
}

impl Place {
    /// Java as it starts fastest: this broker is young all its life.
    fn java(&self) -> Command {
        let mut command = Command::new("java");
        command.args(["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        let logging = self.folder.join(config::LOGGING);
        command.arg(format!("-Dlog4j2.configurationFile={}", logging.display()));
        command.arg("-cp").arg(self.jars.join("*"));
        command
    }

    /// The names and passwords of SCRAM are kept in the cluster; those of PLAIN stand in its configuration.
    fn add_scram_users(&self) -> Result<()> {
        // One at a time: it refuses to change a user twice in one request.
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
            let mut command = self.java();
            command.args(["kafka.admin.ConfigCommand", "--alter", "--entity-type", "users", "--entity-name"]);
            command.args([
                USER,
                "--bootstrap-server",
                &format!("127.0.0.1:{}", self.ports.plain),
                "--add-config",
            ]);
            command.arg(format!("{mechanism}=[password={PASSWORD}]"));
            let output = command.output().context("cannot run java")?;
            if !output.status.success() {
                let (out, err) = (&output.stdout, &output.stderr);
                bail!("no user {USER}\n{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err));
            }
        }
        Ok(())
    }
}

/// Whether a broker answers a question for its versions.
fn greets(port: u16) -> bool {
    let hello = || -> std::io::Result<[u8; 8]> {
        let mut stream = TcpStream::connect_timeout(&port::address(port), Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        // Ten bytes follow: ApiVersions, version 0, question number 7, no name of a client.
        stream.write_all(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff])?;
        let mut answer = [0; 8];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    };
    matches!(hello(), Ok([_, _, _, _, 0, 0, 0, 7]))
}

/// The version that `kafka/pom.xml` names.
fn version() -> &'static str {
    let (_, rest) = POM.split_once("<kafka.version>").unwrap_or_default();
    rest.split('<').next().unwrap_or_default()
}

/// The cache folder into which `scripts/setup` puts Kafka.
fn jars() -> Result<PathBuf> {
    let missing = || {
        anyhow!(Missing { server: "Apache Kafka", install: "scripts/setup, which asks Maven", in_ci: true })
    };
    let cache = env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    let folder = cache.map(|cache| cache.join("outboxd").join(format!("kafka-{}", version())));
    let folder = folder.filter(|folder| fs::exists(folder).unwrap_or(false)).ok_or_else(missing)?;
    match Command::new("java").arg("-version").output() {
        Ok(output) if output.status.success() => Ok(folder),
        _ => Err(missing()),
    }
}

//! A private RabbitMQ: its own node, ports, folder and port mapper (epmd).

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use uuid::Uuid;

use crate::leash::{Folder, Leash};
use crate::postgres::again;
use crate::server::Server;
use crate::{Missing, blocking, port};

/// Where a run's shared broker is: `<port>:<distribution port>:<epmd port>:<folder>`. Set by `testbed with`.
pub(crate) const SHARED: &str = "OUTBOX_TESTBED_RABBITMQ";

const START: Duration = Duration::from_secs(180);

/// So long an alarm may take to be raised or cleared.
const ALARM: Duration = Duration::from_secs(30);

/// `rabbitmqctl` takes half a second, so virtual hosts are made in stock.
const STOCK: usize = 8;

/// A RabbitMQ broker of our own.
///
/// The methods that disturb it need `&mut`, so the shared one, a `&'static`, cannot be disturbed.
/// Dropping it ends it and removes its folder; so does the end of this process, whatever its cause.
#[derive(Debug)]
pub struct RabbitMq {
    broker: Arc<Broker>,
}

#[derive(Debug)]
struct Broker {
    /// Outlives the broker's restarts. Were it missing, Erlang would start one that outlives us too. Before the
    /// server, since the removal of the folder waits for both.
    _epmd: Option<Leash>,
    server: Server,
    place: Place,
}

#[derive(Debug)]
struct Place {
    bin: PathBuf,
    folder: PathBuf,
    port: u16,
    distribution: u16,
    epmd: u16,
}

impl RabbitMq {
    /// The broker that all tests of this run share: the one `testbed with` started, or else one of this
    /// process, started by the first test that asks.
    pub async fn shared() -> Result<&'static Self> {
        static BROKER: OnceLock<Result<RabbitMq>> = OnceLock::new();
        blocking(|| {
            let broker = BROKER.get_or_init(|| match env::var(SHARED) {
                Ok(place) => Self::elsewhere(&place),
                Err(_) => Self::start_blocking(),
            });
            broker.as_ref().map_err(again)
        })
        .await
    }

    /// A broker of this test's own, to stop, kill or block. It takes several seconds to start.
    pub async fn start() -> Result<Self> {
        blocking(Self::start_blocking).await
    }

    pub(crate) fn start_blocking() -> Result<Self> {
        let bin = bin()?;
        let folder = Folder::create(None)?;
        let place = Place {
            bin,
            folder: folder.path().to_owned(),
            port: port::free()?,
            distribution: port::free()?,
            epmd: port::free()?,
        };
        folder.write("rabbitmq.conf", &place.config())?;
        folder.write("enabled_plugins", "[].\n")?;
        for stock in ["free", "taken"] {
            fs::create_dir(folder.path().join(stock))?;
        }
        let epmd = place.start_epmd(&folder)?;
        let broker = Broker { _epmd: Some(epmd), server: Server::new("RabbitMQ", Some(folder)), place };
        broker.start()?;
        Ok(Self { broker: Arc::new(broker) })
    }

    fn elsewhere(place: &str) -> Result<Self> {
        let mut parts = place.splitn(4, ':');
        let mut number = || -> Result<u16> {
            let part = parts.next().with_context(|| format!("{SHARED}={place}"))?;
            part.parse().with_context(|| format!("{SHARED}={place}"))
        };
        let (port, distribution, epmd) = (number()?, number()?, number()?);
        let folder = parts.next().with_context(|| format!("{SHARED}={place}"))?.into();
        let place = Place { bin: bin()?, folder, port, distribution, epmd };
        let broker = Broker { _epmd: None, server: Server::new("RabbitMQ", None), place };
        Ok(Self { broker: Arc::new(broker) })
    }

    /// The value of [`SHARED`] with which another process finds this broker.
    pub(crate) fn place(&self) -> String {
        let Place { folder, port, distribution, epmd, .. } = &self.broker.place;
        format!("{port}:{distribution}:{epmd}:{}", folder.display())
    }

    /// A new, empty virtual host in which `guest` may do anything. It lives as long as the broker.
    pub async fn vhost(&self) -> Result<Vhost> {
        let broker = self.broker.clone();
        let name = blocking(move || broker.place.vhost()).await?;
        Ok(Vhost { url: format!("amqp://guest:guest@127.0.0.1:{}/{name}", self.port()), name })
    }

    /// The URL of the virtual host `/`, which is there without asking for it.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port())
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.broker.place.port
    }

    /// The folder with the node's files and `rabbitmq.log`.
    pub fn folder(&self) -> &Path {
        &self.broker.place.folder
    }

    /// Runs `rabbitmqctl` on this broker and returns what it prints.
    pub async fn ctl(&self, arguments: &[&str]) -> Result<String> {
        let broker = self.broker.clone();
        let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        blocking(move || broker.place.ctl(&arguments)).await
    }

    /// Ends it in good order: connections are closed, durable queues stay on disk.
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
        blocking(move || broker.start()).await
    }

    /// [`stop`](Self::stop), then [`start_again`](Self::start_again).
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        self.start_again().await
    }

    /// Raises the memory alarm: the broker stops reading from every connection that publishes.
    pub async fn block(&mut self) -> Result<()> {
        self.watermark("0.00001", true).await
    }

    /// Clears the memory alarm.
    pub async fn unblock(&mut self) -> Result<()> {
        self.watermark("0.4", false).await
    }

    async fn watermark(&mut self, fraction: &str, alarm: bool) -> Result<()> {
        self.ctl(&["set_vm_memory_high_watermark", fraction]).await?;
        // The broker tells itself of an alarm in its own time.
        let deadline = Instant::now() + ALARM;
        loop {
            let alarms = self.ctl(&["eval", "rabbit_alarm:get_alarms()."]).await?;
            if alarms.contains("memory") == alarm {
                return Ok(());
            }
            if Instant::now() >= deadline {
                bail!("watermark {fraction}, but the alarms are {}", alarms.trim());
            }
        }
    }

    async fn end(&mut self, signal: &'static str) -> Result<()> {
        let broker = self.broker.clone();
        blocking(move || broker.server.end(signal)).await
    }
}

impl Broker {
    fn start(&self) -> Result<()> {
        let command = self.place.command("rabbitmq-server");
        self.server.start("rabbitmq", "KILL", &command, START, || Ok(greets(self.place.port)))
    }
}

impl Place {
    fn node(&self) -> String {
        format!("outbox-{}@localhost", self.port)
    }

    fn config(&self) -> String {
        format!(
            "listeners.tcp.1 = 127.0.0.1:{}\n\
             num_acceptors.tcp = 2\n\
             disk_free_limit.absolute = 50MB\n\
             log.console = true\n\
             log.console.level = warning\n\
             log.file = false\n",
            self.port
        )
    }

    /// A script of the broker with everything that makes it speak to this node only. The environment is
    /// emptied first: a stray `RABBITMQ_…` of the developer must not lead us to another broker.
    fn command(&self, script: &str) -> Command {
        let folder = |name: &str| self.folder.join(name).into_os_string();
        let variables: [(&str, OsString); 16] = [
            ("PATH", env::var_os("PATH").unwrap_or_default()),
            ("LANG", "C.UTF-8".into()),
            ("HOME", folder("")),
            ("RABBITMQ_NODENAME", self.node().into()),
            ("RABBITMQ_MNESIA_BASE", folder("mnesia")),
            ("RABBITMQ_LOG_BASE", folder("log")),
            ("RABBITMQ_LOGS", "-".into()),
            ("RABBITMQ_PID_FILE", folder("pid")),
            ("RABBITMQ_CONFIG_FILE", folder("rabbitmq.conf")),
            ("RABBITMQ_ADVANCED_CONFIG_FILE", folder("advanced.config")),
            ("RABBITMQ_CONF_ENV_FILE", folder("rabbitmq-env.conf")),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", folder("enabled_plugins")),
            ("RABBITMQ_DIST_PORT", self.distribution.to_string().into()),
            ("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+S 2:2 +sbwt none".into()),
            ("ERL_EPMD_PORT", self.epmd.to_string().into()),
            ("ERL_EPMD_ADDRESS", "127.0.0.1".into()),
        ];
        let mut command = Command::new("env");
        command.arg("-i");
        for (variable, value) in variables {
            let mut assignment = OsString::from(variable);
            assignment.push("=");
            assignment.push(value);
            command.arg(assignment);
        }
        command.arg(self.bin.join(script)).current_dir(&self.folder);
        command
    }

    /// In the foreground, on a leash: the one that Erlang starts by itself is a daemon and stays behind.
    fn start_epmd(&self, folder: &Folder) -> Result<Leash> {
        let mut command = Command::new("epmd");
        command.args(["-address", "127.0.0.1", "-port", &self.epmd.to_string()]);
        let leash = folder.leash("epmd", "KILL", &command)?;
        port::until("epmd to start", START, || {
            leash.check()?;
            Ok(port::answers(self.epmd))
        })?;
        Ok(leash)
    }

    fn ctl(&self, arguments: &[String]) -> Result<String> {
        let mut command = self.command("rabbitmqctl");
        let output = command.arg("--quiet").args(arguments).output().context("cannot run rabbitmqctl")?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("rabbitmqctl {} failed\n{stdout}{stderr}", arguments.join(" "));
        }
        Ok(stdout)
    }

    /// A virtual host from the stock. One file each, so that every process of a run can take from it:
    /// only one of them can rename a file.
    fn vhost(&self) -> Result<String> {
        let (free, taken) = (self.folder.join("free"), self.folder.join("taken"));
        loop {
            for entry in fs::read_dir(&free)? {
                let name = entry?.file_name();
                match fs::rename(free.join(&name), taken.join(&name)) {
                    Ok(()) => return name.into_string().map_err(|name| anyhow!("strange name {name:?}")),
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let names: Vec<_> = (0..STOCK).map(|_| format!("t{}", Uuid::new_v4().simple())).collect();
            self.add_vhosts(&names)?;
            for name in names {
                fs::write(free.join(name), "")?;
            }
        }
    }

    fn add_vhosts(&self, names: &[String]) -> Result<()> {
        let names: Vec<_> = names.iter().map(|name| format!("<<\"{name}\">>")).collect();
        let expression = format!(
            "lists:foreach(fun(Name) ->
                 ok = rabbit_vhost:add(Name, <<\"testbed\">>),
                 All = <<\".*\">>,
                 ok = rabbit_auth_backend_internal:set_permissions(
                     <<\"guest\">>, Name, All, All, All, <<\"testbed\">>)
             end, [{}]).",
            names.join(", ")
        );
        self.ctl(&["eval".to_owned(), expression]).map(drop)
    }
}

/// A virtual host of one test.
#[derive(Clone, Debug)]
pub struct Vhost {
    url: String,
    name: String,
}

impl Vhost {
    /// Its URL, for `guest`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name, for the `-p` of `rabbitmqctl`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Whether a broker answers the first bytes of an AMQP connection. It opens its port last of all.
fn greets(port: u16) -> bool {
    let hello = || -> std::io::Result<u8> {
        let mut stream = TcpStream::connect_timeout(&port::address(port), Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"AMQP\x00\x00\x09\x01")?;
        let mut method = [0];
        stream.read_exact(&mut method)?;
        Ok(method[0])
    };
    matches!(hello(), Ok(1))
}

/// The folder with the broker's own scripts: the ones Debian puts in the path change the user.
fn bin() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let fixed = ["/usr/lib/rabbitmq/bin", "/opt/rabbitmq/sbin"].map(PathBuf::from);
    let mut folders = fixed.into_iter().chain(env::split_paths(&path));
    let found = folders.find(|bin| bin.join("rabbitmq-server").exists() && bin.join("rabbitmq-env").exists());
    found.ok_or_else(|| {
        anyhow!(Missing { server: "RabbitMQ", install: "apt-get install rabbitmq-server", in_ci: false })
    })
}

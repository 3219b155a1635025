//! A private MariaDB: a folder, a port and a server that nobody else knows.

use std::env;
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};
use uuid::Uuid;

use crate::leash::{Folder, Owner};
use crate::postgres::{Database, again};
use crate::server::Server;
use crate::{Missing, blocking, port};

/// Where a run's shared server is: `<port>:<folder>`. Set by `testbed with`.
pub(crate) const SHARED: &str = "OUTBOX_TESTBED_MARIADB";

const START: Duration = Duration::from_secs(90);

/// Creates the system tables at the first start. It runs under the leash, so a killed test leaves no bootstrap.
/// The developer's `my.cnf` is not read: it may name the folder of a server that runs.
const RUN: &str = r#"
server=$1 folder=$2
shift 2
[ -e "$folder/ready" ] ||
    { mariadb-install-db --no-defaults --datadir="$folder" --auth-root-authentication-method=normal \
        --skip-name-resolve --skip-test-db --innodb-log-file-size=16M && : >"$folder/ready"; } || exit
exec "$server" --no-defaults --datadir="$folder" "$@"
"#;

/// A MariaDB server of our own.
///
/// The methods that disturb it need `&mut`, so the shared one, a `&'static`, cannot be disturbed.
/// Dropping it ends it and removes its folder; so does the end of this process, whatever its cause.
#[derive(Debug)]
pub struct MariaDb {
    instance: Arc<Instance>,
}

#[derive(Debug)]
struct Instance {
    server: Server,
    place: Place,
}

#[derive(Debug)]
struct Place {
    program: PathBuf,
    folder: PathBuf,
    port: u16,
    settings: Vec<String>,
}

impl MariaDb {
    /// The server that all tests of this run share: the one `testbed with` started, or else one of this
    /// process, started by the first test that asks.
    pub async fn shared() -> Result<&'static Self> {
        static SERVER: OnceLock<Result<MariaDb>> = OnceLock::new();
        blocking(|| {
            let server = SERVER.get_or_init(|| match env::var(SHARED) {
                Ok(place) => Self::elsewhere(&place),
                Err(_) => Self::start_blocking(&[]),
            });
            server.as_ref().map_err(again)
        })
        .await
    }

    /// A server of this test's own, to stop, kill or configure.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// Like [`start`](Self::start), with settings of `mariadbd` that win over ours, such as
    /// `("default-time-zone", "+05:00")`.
    pub async fn start_with(settings: &[(&str, &str)]) -> Result<Self> {
        let settings: Vec<_> = settings.iter().map(|(key, value)| format!("--{key}={value}")).collect();
        blocking(move || Self::start_blocking(&settings)).await
    }

    pub(crate) fn start_blocking(settings: &[String]) -> Result<Self> {
        let program = program()?;
        let folder = Folder::create(Owner::not_root("mysql")?)?;
        let path = folder.path().to_owned();
        let place = Place { program, folder: path, port: port::free()?, settings: settings.to_owned() };
        let instance = Instance { server: Server::new("MariaDB", Some(folder)), place };
        instance.start()?;
        Ok(Self { instance: Arc::new(instance) })
    }

    fn elsewhere(place: &str) -> Result<Self> {
        let (port, folder) = place.split_once(':').with_context(|| format!("{SHARED}={place}"))?;
        let port = port.parse().with_context(|| format!("{SHARED}={port}:…"))?;
        let place = Place { program: program()?, folder: folder.into(), port, settings: Vec::new() };
        Ok(Self { instance: Arc::new(Instance { server: Server::new("MariaDB", None), place }) })
    }

    /// The value of [`SHARED`] with which another process finds this server.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.port(), self.folder().display())
    }

    /// A new, empty database. It lives as long as the server.
    pub async fn database(&self) -> Result<Database> {
        let name = format!("t_{}", Uuid::new_v4().simple());
        let mut connection = MySqlConnection::connect(&self.admin_url()).await?;
        let statement = AssertSqlSafe(format!("create database {name} character set utf8mb4"));
        sqlx::raw_sql(statement).execute(&mut connection).await?;
        connection.close().await?;
        Ok(Database { url: self.url(&name), name })
    }

    /// The URL of the database `name`, for the superuser.
    pub fn url(&self, name: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/{name}", self.port())
    }

    /// The URL of the database `mysql`, for the superuser.
    pub fn admin_url(&self) -> String {
        self.url("mysql")
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.instance.place.port
    }

    /// The folder with the data, the socket and `mariadb.log`.
    pub fn folder(&self) -> &Path {
        &self.instance.place.folder
    }

    /// Ends it in good order: sessions are closed, what they did not commit is rolled back.
    pub async fn stop(&mut self) -> Result<()> {
        self.end("TERM").await
    }

    /// Kills it as the power cut would, and returns when it is gone.
    pub async fn kill(&mut self) -> Result<()> {
        self.end("KILL").await
    }

    /// Starts it again after [`stop`](Self::stop) or [`kill`](Self::kill), on the same port.
    pub async fn start_again(&mut self) -> Result<()> {
        let instance = self.instance.clone();
        blocking(move || instance.start()).await
    }

    /// [`stop`](Self::stop), then [`start_again`](Self::start_again).
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        self.start_again().await
    }

    async fn end(&mut self, signal: &'static str) -> Result<()> {
        let instance = self.instance.clone();
        blocking(move || instance.server.end(signal)).await
    }
}

impl Instance {
    fn start(&self) -> Result<()> {
        let port = self.place.port;
        self.server.start("mariadb", "KILL", &self.place.command(), START, || Ok(greets(port)))
    }
}

impl Place {
    fn command(&self) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", RUN, "testbed-mariadb"]).arg(&self.program).arg(self.folder.join("data"));
        command.arg(format!("--port={}", self.port));
        command.arg(format!("--socket={}", self.folder.join("socket").display()));
        command.arg(format!("--pid-file={}", self.folder.join("pid").display()));
        command.args([
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--max-connections=200",
            // Written at each commit, so that a kill loses nothing; synced once a second.
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=16M",
            "--log-warnings=1",
        ]);
        command.args(&self.settings);
        // Not the common /tmp: a server that starts removes the temporary tables that it finds there, whosever they are.
        command.env("TMPDIR", &self.folder);
        // A stray MYSQL_HOME or MYSQL_UNIX_PORT of the developer must not lead us to another server.
        for (variable, _) in env::vars_os() {
            if variable.to_string_lossy().starts_with("MYSQL") {
                command.env_remove(variable);
            }
        }
        command
    }
}

/// Whether a server sends its greeting, which begins with the version 10 of the protocol. It opens its port
/// before it has recovered, but greets nobody until then.
fn greets(port: u16) -> bool {
    let hello = || -> std::io::Result<u8> {
        let mut stream = TcpStream::connect_timeout(&port::address(port), Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut packet = [0; 5];
        stream.read_exact(&mut packet)?;
        Ok(packet[4])
    };
    matches!(hello(), Ok(10))
}

fn program() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // /usr/sbin is not in everybody's path.
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let found = folders.map(|folder| folder.join("mariadbd")).find(|program| program.exists());
    found.ok_or_else(|| {
        anyhow!(Missing { server: "MariaDB", install: "apt-get install mariadb-server", in_ci: false })
    })
}

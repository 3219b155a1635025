//! A private PostgreSQL: a folder, a port and a server that nobody else knows.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use uuid::Uuid;

use crate::leash::{Folder, Owner};
use crate::server::Server;
use crate::{Missing, blocking, port};

/// Where a run's shared server is: `<port>:<folder>`. Set by `testbed with`.
pub(crate) const SHARED: &str = "OUTBOX_TESTBED_POSTGRES";

const START: Duration = Duration::from_secs(90);

/// Creates the cluster at the first start, empty or as a standby of the server on port `primary`. It runs under the
/// leash, so a killed test leaves no `initdb`.
const RUN: &str = r#"
bin=$1 folder=$2 primary=$3
shift 3
if [ -n "$primary" ] && ! [ -s "$folder/PG_VERSION" ]; then
    "$bin/pg_basebackup" --pgdata="$folder" --host=127.0.0.1 --port="$primary" --username=postgres \
        --write-recovery-conf --checkpoint=fast --no-sync || exit
fi
[ -s "$folder/PG_VERSION" ] ||
    "$bin/initdb" --pgdata="$folder" --auth=trust --username=postgres --encoding=UTF8 --locale=C --no-sync ||
    exit
exec "$bin/postgres" -D "$folder" "$@"
"#;

/// A PostgreSQL server of our own.
///
/// The methods that disturb it need `&mut`, so the shared one, a `&'static`, cannot be disturbed.
/// Dropping it ends it and removes its folder; so does the end of this process, whatever its cause.
#[derive(Debug)]
pub struct Postgres {
    cluster: Arc<Cluster>,
}

#[derive(Debug)]
struct Cluster {
    server: Server,
    place: Place,
}

#[derive(Debug)]
struct Place {
    bin: PathBuf,
    folder: PathBuf,
    port: u16,
    settings: Vec<String>,
    /// The port of the server that this one is a standby of.
    primary: Option<u16>,
}

impl Postgres {
    /// The server that all tests of this run share: the one `testbed with` started, or else one of this
    /// process, started by the first test that asks.
    pub async fn shared() -> Result<&'static Self> {
        static SERVER: OnceLock<Result<Postgres>> = OnceLock::new();
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

    /// Like [`start`](Self::start), with settings of `postgresql.conf` that win over ours: the default is
    /// `fsync=off` for speed, so a test that cuts the power wants `("fsync", "on")`.
    pub async fn start_with(settings: &[(&str, &str)]) -> Result<Self> {
        let settings: Vec<_> = settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        blocking(move || Self::start_blocking(&settings)).await
    }

    /// A standby that follows the server on this port of 127.0.0.1 (or a proxy to it) until it is promoted.
    pub async fn standby_of(port: u16) -> Result<Self> {
        blocking(move || Self::start_as(&[], Some(port))).await
    }

    /// Makes a standby a server of its own.
    pub async fn promote(&self) -> Result<()> {
        let mut connection = PgConnection::connect(&self.admin_url()).await?;
        sqlx::raw_sql("select pg_promote()").execute(&mut connection).await?;
        Ok(connection.close().await?)
    }

    pub(crate) fn start_blocking(settings: &[String]) -> Result<Self> {
        Self::start_as(settings, None)
    }

    fn start_as(settings: &[String], primary: Option<u16>) -> Result<Self> {
        let bin = bin()?;
        let folder = Folder::create(Owner::not_root("postgres")?)?;
        let place = Place {
            bin,
            folder: folder.path().to_owned(),
            port: port::free()?,
            settings: settings.to_owned(),
            primary,
        };
        let cluster = Cluster { server: Server::new("PostgreSQL", Some(folder)), place };
        cluster.start()?;
        Ok(Self { cluster: Arc::new(cluster) })
    }

    fn elsewhere(place: &str) -> Result<Self> {
        let (port, folder) = place.split_once(':').with_context(|| format!("{SHARED}={place}"))?;
        let place = Place {
            bin: bin()?,
            folder: folder.into(),
            port: port.parse().with_context(|| format!("{SHARED}={port}:…"))?,
            settings: Vec::new(),
            primary: None,
        };
        Ok(Self { cluster: Arc::new(Cluster { server: Server::new("PostgreSQL", None), place }) })
    }

    /// The value of [`SHARED`] with which another process finds this server.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.port(), self.folder().display())
    }

    /// A new, empty database. It lives as long as the server.
    pub async fn database(&self) -> Result<Database> {
        let name = format!("t_{}", Uuid::new_v4().simple());
        let mut connection = PgConnection::connect(&self.admin_url()).await?;
        let statement = AssertSqlSafe(format!("create database {name}"));
        sqlx::raw_sql(statement).execute(&mut connection).await?;
        connection.close().await?;
        Ok(Database { url: self.url(&name), name })
    }

    /// The URL of the database `name`, for the superuser.
    pub fn url(&self, name: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{name}", self.port())
    }

    /// The URL of the database `postgres`, for the superuser.
    pub fn admin_url(&self) -> String {
        self.url("postgres")
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.cluster.place.port
    }

    /// The folder with the cluster, the socket and `postgres.log`.
    pub fn folder(&self) -> &Path {
        &self.cluster.place.folder
    }

    /// The folder with `pg_dump`, `pg_restore` and `psql` of the server's version.
    pub fn bin(&self) -> &Path {
        &self.cluster.place.bin
    }

    /// Ends it in good order: sessions are closed, what they did not commit is rolled back.
    pub async fn stop(&mut self) -> Result<()> {
        self.end("INT").await
    }

    /// Kills it as the power cut would, and returns when its last backend is gone.
    pub async fn kill(&mut self) -> Result<()> {
        self.end("KILL").await
    }

    /// Starts it again after [`stop`](Self::stop) or [`kill`](Self::kill), on the same port.
    pub async fn start_again(&mut self) -> Result<()> {
        let cluster = self.cluster.clone();
        blocking(move || cluster.start()).await
    }

    /// [`stop`](Self::stop), then [`start_again`](Self::start_again).
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        self.start_again().await
    }

    async fn end(&mut self, signal: &'static str) -> Result<()> {
        let cluster = self.cluster.clone();
        blocking(move || cluster.server.end(signal)).await
    }
}

impl Cluster {
    fn start(&self) -> Result<()> {
        let mut isready = Command::new(self.place.bin.join("pg_isready"));
        isready.args(["-q", "-h", "127.0.0.1", "-p", &self.place.port.to_string()]);
        isready.stdout(Stdio::null()).stderr(Stdio::null());
        self.server.start("postgres", "QUIT", &self.place.command(), START, || {
            Ok(isready.status().context("cannot run pg_isready")?.success())
        })
    }
}

impl Place {
    fn command(&self) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", RUN, "testbed-postgres"]).arg(&self.bin).arg(self.folder.join("cluster"));
        command.arg(self.primary.map(|port| port.to_string()).unwrap_or_default());
        let ours = [
            format!("port={}", self.port),
            format!("unix_socket_directories={}", self.folder.display()),
            // In the folder: segments under /dev/shm would survive a kill.
            "dynamic_shared_memory_type=mmap".to_owned(),
        ];
        let fast = [
            "listen_addresses=127.0.0.1",
            "max_connections=200",
            "fsync=off",
            "full_page_writes=off",
            "shared_buffers=64MB",
            "log_min_messages=warning",
            "log_line_prefix=%m [%p] %d ",
        ];
        for setting in
            ours.iter().map(String::as_str).chain(fast).chain(self.settings.iter().map(String::as_str))
        {
            command.args(["-c", setting]);
        }
        // A stray PGPORT or PGDATA of the developer must not lead us to another server.
        for (variable, _) in env::vars_os() {
            if variable.to_string_lossy().starts_with("PG") {
                command.env_remove(variable);
            }
        }
        command
    }
}

/// A database of one test.
#[derive(Clone, Debug)]
pub struct Database {
    pub(crate) url: String,
    pub(crate) name: String,
}

impl Database {
    /// Its URL, for the superuser.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A shared server that failed to start fails every test with the same words.
pub(crate) fn again(error: &anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<Missing>() {
        Some(missing) => anyhow!(missing.clone()),
        None => anyhow!("{error:#}"),
    }
}

/// The folder with the newest `initdb`: Debian keeps it out of the path.
fn bin() -> Result<PathBuf> {
    let version = |bin: &PathBuf| -> Option<u32> { bin.parent()?.file_name()?.to_str()?.parse().ok() };
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> = debian.map(|entry| entry.path().join("bin")).filter(|bin| holds(bin)).collect();
    found.sort_by_key(version);
    let path = env::var_os("PATH").unwrap_or_default();
    let newest = found.pop().or_else(|| env::split_paths(&path).find(|bin| holds(bin)));
    newest.ok_or_else(|| {
        anyhow!(Missing { server: "PostgreSQL", install: "apt-get install postgresql", in_ci: false })
    })
}

fn holds(bin: &Path) -> bool {
    bin.join("initdb").exists() && bin.join("postgres").exists()
}

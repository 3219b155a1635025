//! Where it is measured: a folder, a database and the ways out of it.

use std::path::Path;

use tempfile::TempDir;
use url::{Host, Url};

use super::database::{Database, Postgres, Sqlite};
use super::processes::Server;
#[cfg(feature = "kafka")]
use super::way::Kafka;
use super::way::{QueueKind, Rabbit, Way};
use crate::cli;
use crate::cli::args::BenchArgs;
use crate::connection::{Connection, Kind, no_kafka};
use crate::trouble::Trouble;

/// Where it is measured.
pub(super) struct Ground {
    pub(super) folder: TempDir,
    pub(super) database: Database,
    pub(super) ways: Vec<Way>,
    /// What cannot be measured here, and why.
    pub(super) left_out: Vec<String>,
}

impl Ground {
    /// Embedded, or on the connections of a configuration.
    pub(super) async fn open(config: Option<&Path>, args: &BenchArgs) -> anyhow::Result<Self> {
        let Some(config) = config else {
            return if args.kafka_proxy.is_some() { Err(no_kafka().into()) } else { Self::embedded(None) };
        };
        let plan = cli::load(config)?;
        let databases: Vec<&Connection> =
            plan.connections.values().filter(|connection| connection.kind.is_database()).collect();
        let database = match databases.as_slice() {
            [one] => *one,
            [] => return Err(usage(config, "has no connection to a database").into()),
            _ => return Err(usage(config, "has more than one connection to a database").into()),
        };
        let mut ground = match database.kind {
            Kind::Sqlite => Self::embedded(database.sqlite_file().as_deref().and_then(Path::parent))?,
            Kind::Postgres => {
                let server = local_port(database, 5432).and_then(Server::listening_on);
                let postgres = Postgres::open(database, server, args).await?;
                Self { database: Database::Postgres(postgres), ..Self::embedded(None)? }
            }
            _ => return Err(usage(config, "has a database of a kind that is not measured").into()),
        };
        for connection in plan.connections.values() {
            ground.add(connection, args).await?;
        }
        if args.kafka_proxy.is_some() && !plan.connections.values().any(|one| one.kind == Kind::Kafka) {
            return Err(no_kafka().into());
        }
        if ground.ways.len() > 1 {
            // Whoever has a broker does not want to know of files.
            ground.ways.retain(|way| !matches!(way, Way::File));
        }
        Ok(ground)
    }

    /// With SQLite, in this folder or in that of temporary files.
    fn embedded(beside: Option<&Path>) -> anyhow::Result<Self> {
        let mut folder = tempfile::Builder::new();
        folder.prefix("outboxd-bench-");
        let folder = match beside {
            Some(beside) => folder.tempdir_in(beside)?,
            None => folder.tempdir()?,
        };
        let database = Database::Sqlite(Sqlite::new(folder.path().to_owned()));
        Ok(Self { folder, database, ways: vec![Way::File], left_out: Vec::new() })
    }

    #[cfg_attr(not(feature = "kafka"), expect(unused_variables, reason = "only Kafka needs to be told how"))]
    async fn add(&mut self, connection: &Connection, args: &BenchArgs) -> anyhow::Result<()> {
        match connection.kind {
            Kind::Amqp => {
                let port = if connection.url.reveal().starts_with("amqps") { 5671 } else { 5672 };
                let server = local_port(connection, port).and_then(Server::listening_on);
                for kind in [QueueKind::Quorum, QueueKind::Classic] {
                    self.ways.push(Way::Rabbit(Rabbit::new(connection.url.clone(), kind, server)));
                }
            }
            #[cfg(feature = "kafka")]
            Kind::Kafka => {
                let server = local_port(connection, 9092).and_then(Server::listening_on);
                let proxy = match args.kafka_proxy {
                    Some(address) => Some(crate::raw_kafka::proxy(connection, address).await?),
                    None => None,
                };
                self.ways.push(Way::Kafka(Kafka::new(connection, server, proxy)?));
            }
            #[cfg(not(feature = "kafka"))]
            Kind::Kafka => {
                self.left_out.push(format!(
                    "connection '{}': this outboxd was built without Kafka; build it with --features kafka",
                    connection.name
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// Removes everything that was made.
    pub(super) async fn clean(&self) -> anyhow::Result<()> {
        // All of it, also if a part fails.
        let mut cleaned = self.database.clean().await;
        for way in &self.ways {
            cleaned = cleaned.and(way.clean().await);
        }
        cleaned
    }
}

fn usage(config: &Path, what: &str) -> Trouble {
    let help = "name a configuration whose [connections] are one database (sqlite: or postgres:) and brokers; without \
                --config it is SQLite in a temporary folder";
    Trouble::usage(format!("{} {what}", config.display()), help)
}

/// The port of a connection, if it is on this machine.
fn local_port(connection: &Connection, usual: u16) -> Option<u16> {
    // Of several brokers the first.
    let url = Url::parse(connection.url.reveal().split(',').next()?).ok()?;
    let is_local = match url.host()? {
        Host::Domain(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
    };
    is_local.then(|| url.port().unwrap_or(usual))
}

//! A private pgbouncer in transaction mode, to show what needs a session and what does not.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::leash::{Folder, Leash, Owner};
use crate::{Missing, Postgres, blocking, port};

const START: Duration = Duration::from_secs(30);

/// A transaction pooler in front of a [`Postgres`]. Each transaction may run on another connection.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    // In this order, since the folder's removal waits for the server.
    _leash: Leash,
    _folder: Folder,
}

impl PgBouncer {
    /// Starts one for all databases of `postgres`.
    pub async fn start(postgres: &Postgres) -> Result<Self> {
        let target = postgres.port();
        blocking(move || Self::start_blocking(target)).await
    }

    fn start_blocking(target: u16) -> Result<Self> {
        let program = program()?;
        let folder = Folder::create(Owner::not_root("postgres")?)?;
        let port = port::free()?;
        let config = folder.write("pgbouncer.ini", &config(port, target))?;
        let mut command = Command::new(program);
        command.arg(config);
        let leash = folder.leash("pgbouncer", "KILL", &command)?;
        port::until("pgbouncer to start", START, || {
            leash.check()?;
            Ok(port::answers(port))
        })?;
        Ok(Self { port, _leash: leash, _folder: folder })
    }

    /// The URL of the database `name` through the pooler, for the superuser.
    pub fn url(&self, name: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{name}", self.port)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

fn config(port: u16, target: u16) -> String {
    // sqlx sets `extra_float_digits` in every session; the pooler would refuse what it does not know.
    format!(
        "[databases]\n\
         * = host=127.0.0.1 port={target} user=postgres\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = transaction\n\
         max_client_conn = 500\n\
         default_pool_size = 20\n\
         ignore_startup_parameters = extra_float_digits\n"
    )
}

fn program() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // /usr/sbin is not in everybody's path.
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let found = folders.map(|folder| folder.join("pgbouncer")).find(|program| program.exists());
    found.ok_or_else(|| {
        anyhow!(Missing { server: "pgbouncer", install: "apt-get install pgbouncer", in_ci: false })
    })
}

//! Where the demonstration keeps its things.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::trouble::{Exit, Trouble};

/// Where the dashboard is, if nobody else is there.
const PORT: u16 = 8480;

/// A folder, and the address of the dashboard.
pub(super) struct Place {
    pub(super) folder: PathBuf,
    pub(super) listen: SocketAddr,
}

impl Place {
    pub(super) fn new(folder: Option<PathBuf>) -> anyhow::Result<Self> {
        let folder = match folder {
            Some(folder) => {
                std::fs::create_dir_all(&folder)
                    .with_context(|| format!("cannot make {}", folder.display()))?;
                folder
            }
            // Kept, so that the commands at the end have something to look at.
            None => tempfile::Builder::new().prefix("outboxd-demo-").tempdir()?.keep(),
        };
        let place = Self { folder: folder.canonicalize()?, listen: free_address()? };
        if place.database().exists() {
            let what = format!("{} holds an earlier demo", place.folder.display());
            let help = "choose another folder with --dir, or remove this one";
            return Err(Trouble::new(Exit::Failed, what, help).into());
        }
        Ok(place)
    }

    pub(super) fn database(&self) -> PathBuf {
        self.folder.join("shop.db")
    }

    pub(super) fn events(&self) -> PathBuf {
        self.folder.join("events.jsonl")
    }

    pub(super) fn config(&self) -> PathBuf {
        self.folder.join("outboxd.toml")
    }

    /// A configuration with which every other verb finds the database; with `run` the shop's messages go the same ways.
    pub(super) fn write_config(&self) -> anyhow::Result<()> {
        let quoted = |path: &Path| toml::Value::String(path.display().to_string()).to_string();
        let url = format!("sqlite:{}", self.database().display());
        let (url, events, listen) = (quoted(Path::new(&url)), quoted(&self.events()), self.listen);
        let mut config = format!(
            "# Made by `outboxd demo`.\n\
             [connections]\nshop = {url}\n\n\
             [sources.orders]\non = \"shop\"\n\n\
             [sinks.relay]\nfile = {events}\n\n\
             [http]\nlisten = \"{listen}\"\nanonymous = \"operator\"\n\n"
        );
        for name in ["inventory", "mailer"] {
            config += &format!(
                "[sinks.{name}]\non = \"shop\"\n\
                 sql = \"INSERT INTO {name}_effects VALUES (:id, :key, :payload.number)\"\n\n"
            );
        }
        for name in super::PIPES {
            // SQLite has one writer at a time, so more than one delivery at once would only wait.
            config += &format!(
                "[pipes.{name}]\nfrom = \"orders\"\nto = \"{name}\"\nretry_first = \"100ms\"\nretry_most = \"2s\"\n\
                 concurrency = 1\nbatch = 200\n\n"
            );
        }
        Ok(std::fs::write(self.config(), config)?)
    }
}

/// The usual address, or another on this machine. Between this and the start somebody may take it; then the start says so.
fn free_address() -> anyhow::Result<SocketAddr> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let found = bind(PORT).or_else(|_| bind(0)).context("there is no free port on 127.0.0.1")?;
    Ok(found.local_addr()?)
}

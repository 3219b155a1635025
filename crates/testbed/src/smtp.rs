//! A private mail server (aiosmtpd) that keeps what it accepts, and refuses by the name of the recipient.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, anyhow, bail};

use crate::leash::Folder;
use crate::postgres::again;
use crate::server::Server;
use crate::{Missing, blocking, certificates, port};

const START: Duration = Duration::from_secs(30);

const SCRIPT: &str = include_str!("../smtp/server.py");

/// A mail server of our own, with three ports: one in the clear, one with STARTTLS, one with TLS from the first byte.
/// The latter two want a login.
///
/// By their names these recipients are `refused@…` (550), `greylisted@…` (451 the first time), `closing@…` (421); the
/// content for `unwanted@…` gets 554, for `full@…` 452, for `silent@…` no answer and for `hangs-up@…` the end of the
/// connection. A letter to anybody else is kept.
#[derive(Debug)]
pub struct Smtp {
    instance: Arc<Instance>,
}

#[derive(Debug)]
struct Instance {
    server: Server,
    python: PathBuf,
    folder: PathBuf,
    ports: [u16; 3],
}

/// A letter that was accepted.
#[derive(Debug, Clone)]
pub struct Mail {
    /// The sender of the envelope.
    pub from: String,
    /// The recipients of the envelope.
    pub to: Vec<String>,
    /// Who had logged in.
    pub user: Option<String>,
    /// Whether it came encrypted.
    pub is_tls: bool,
    /// Headers and body, as they came.
    pub content: String,
}

impl Smtp {
    /// Who may log in where a login is wanted.
    pub const USER: &str = "shop@testbed.example";
    /// With this password.
    pub const PASSWORD: &str = "pass:word/1";

    /// The server that all tests of this process share, started by the first that asks.
    pub async fn shared() -> Result<&'static Self> {
        static SERVER: OnceLock<Result<Smtp>> = OnceLock::new();
        blocking(|| SERVER.get_or_init(Self::start_blocking).as_ref().map_err(again)).await
    }

    /// A server of this test's own, to stop and to start again.
    pub async fn start() -> Result<Self> {
        blocking(Self::start_blocking).await
    }

    fn start_blocking() -> Result<Self> {
        let python = python()?;
        let folder = Folder::create(None)?;
        let path = folder.path().to_owned();
        certificates::make(&path)?;
        folder.write("server.py", SCRIPT)?;
        let ports = [port::free()?, port::free()?, port::free()?];
        let instance =
            Instance { server: Server::new("aiosmtpd", Some(folder)), python, folder: path, ports };
        instance.start()?;
        Ok(Self { instance: Arc::new(instance) })
    }

    /// The port in the clear, without a login.
    pub fn open_port(&self) -> u16 {
        self.instance.ports[0]
    }

    /// The port with STARTTLS, which wants a login.
    pub fn starttls_port(&self) -> u16 {
        self.instance.ports[1]
    }

    /// The port with TLS from the first byte, which wants a login.
    pub fn implicit_port(&self) -> u16 {
        self.instance.ports[2]
    }

    /// The certificate of the authority behind both, as PEM.
    pub fn ca_file(&self) -> PathBuf {
        self.instance.folder.join(certificates::AUTHORITY)
    }

    /// The letters that were accepted for a recipient, in the order in which they came.
    pub fn mails(&self, recipient: &str) -> Result<Vec<Mail>> {
        let entries = fs::read_dir(&self.instance.folder)?.collect::<Result<Vec<_>, _>>()?;
        let mut paths: Vec<_> = entries.iter().map(fs::DirEntry::path).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "eml"));
        paths.sort();
        let mails = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
        Ok(mails.into_iter().filter(|mail| mail.to.iter().any(|to| to == recipient)).collect())
    }

    /// Ends it; what it has accepted is kept.
    pub async fn stop(&mut self) -> Result<()> {
        let instance = self.instance.clone();
        blocking(move || instance.server.end("TERM")).await
    }

    /// Starts it again after [`stop`](Self::stop), on the same ports.
    pub async fn start_again(&mut self) -> Result<()> {
        let instance = self.instance.clone();
        blocking(move || instance.start()).await
    }
}

impl Instance {
    fn start(&self) -> Result<()> {
        let mut command = Command::new(&self.python);
        command.arg(self.folder.join("server.py")).arg(&self.folder).args([Smtp::USER, Smtp::PASSWORD]);
        command.args(self.ports.map(|port| port.to_string()));
        let ports = self.ports;
        self.server.start("smtp", "KILL", &command, START, || Ok(ports.into_iter().all(port::answers)))
    }
}

fn read(path: &Path) -> Result<Mail> {
    let bytes = fs::read(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, content) =
        text.split_once("\n\n").with_context(|| format!("{} has no head", path.display()))?;
    let mut mail =
        Mail { from: String::new(), to: Vec::new(), user: None, is_tls: false, content: content.to_owned() };
    for line in head.lines() {
        match line.split_once(' ') {
            Some(("from", from)) => mail.from = from.to_owned(),
            Some(("to", to)) => mail.to = to.split(' ').map(str::to_owned).collect(),
            Some(("user", user)) => mail.user = Some(user.to_owned()).filter(|user| !user.is_empty()),
            Some(("tls", tls)) => mail.is_tls = tls == "yes",
            _ => bail!("{}: {line}", path.display()),
        }
    }
    Ok(mail)
}

/// A Python that has aiosmtpd: that of the system, for which there is a package, or the first in the path.
fn python() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [PathBuf::from("/usr/bin")].into_iter().chain(env::split_paths(&path));
    let has_it = |python: &PathBuf| {
        let mut command = Command::new(python);
        command.args(["-c", "import aiosmtpd"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let found = folders.map(|folder| folder.join("python3")).filter(|python| python.exists()).find(has_it);
    found.ok_or_else(|| {
        anyhow!(Missing { server: "aiosmtpd", install: "apt-get install python3-aiosmtpd", in_ci: false })
    })
}

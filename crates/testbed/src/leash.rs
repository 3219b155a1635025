//! Servers that die with us, however we die.
//!
//! A static is never dropped and a killed test runs no destructor, so the clean-up is left to small
//! shells outside of our process that wait for a pipe to close. The kernel closes it in every case.
//!
//! Two kinds of them: a *guard* per server, which ends the server when we are gone, and a *keeper* per
//! folder, which removes the folder when we, the guards and every server in it are gone. All of them
//! hold the keeper's pipe open, so the order needs no bookkeeping and no process ids.

use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Long enough for any server to end: the guard itself loses patience after five seconds.
const END: Duration = Duration::from_secs(30);

/// Removes the folder once nobody holds the other end of its input.
const KEEPER: &str = r#"
while read -r _; do :; done
cd /
rm -rf -- "$1"
"#;

/// Runs a server; sends it each signal named on the input; ends it when the input ends.
///
/// Descriptor 4 is the keeper's pipe and 5 tells us that all is gone: the server and its children
/// inherit both. The shell leads a process group of its own, so that Ctrl-C in a terminal does not
/// reach it, and so that `kill 0` is the server with all its children, and the shell itself. The last
/// signal is repeated since one that comes while the server is still being set up may be lost.
const GUARD: &str = r#"
last=$1 log=$2
shift 2
exec 3<&0 4>&1 5>&2 </dev/null >>"$log" 2>&1
"$@" 3<&- &
server=$!
{
    while read -r signal <&3; do kill -s "$signal" "$server"; done
    for _ in 1 2 3 4 5; do
        kill -s "$last" "$server"
        sleep 1
    done
    kill -s KILL 0
} &
wait "$server"
kill -s KILL 0
"#;

/// The user a server runs as when it is not ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// The databases refuse to run as root: then they run as the `user` of their package, else as ourselves.
    pub(crate) fn not_root(user: &str) -> Result<Option<Self>> {
        if id(&["-u"])? != 0 {
            return Ok(None);
        }
        let (uid, gid) = (id(&["-u", user])?, id(&["-g", user])?);
        Ok(Some(Self { uid, gid }))
    }
}

fn id(arguments: &[&str]) -> Result<u32> {
    let output = Command::new("id").args(arguments).output().context("cannot run id")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().with_context(|| format!("id {} printed {text:?}", arguments.join(" ")))
}

/// A temporary folder that goes when we and all servers in it are gone.
///
/// Drop it after its leashes: it waits for them.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    owner: Option<Owner>,
    keeper: Child,
    pipe: Option<OwnedFd>,
}

impl Folder {
    /// A new folder, in the possession of `owner` if there is one.
    pub(crate) fn create(owner: Option<Owner>) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("outbox-testbed.").tempdir()?;
        let path = folder.path().to_owned();
        if let Some(owner) = owner {
            chown(&path, Some(owner.uid), Some(owner.gid))?;
        }
        // Standard error is inherited on purpose: `cargo test | tee` then ends when all is removed.
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "testbed-keeper"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot run sh")?;
        let pipe = keeper.stdin.take().map(OwnedFd::from);
        // From here on the keeper removes it.
        let _ = folder.keep();
        Ok(Self { path, owner, keeper, pipe })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file that the servers of this folder can read.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        if let Some(owner) = self.owner {
            chown(&path, Some(owner.uid), Some(owner.gid))?;
        }
        Ok(path)
    }

    /// Starts `command` in this folder, with its output in `<name>.log`. `last` is the signal that
    /// ends it when we are gone.
    pub(crate) fn leash(&self, name: &str, last: &str, command: &Command) -> Result<Leash> {
        let log = self.path.join(format!("{name}.log"));
        let Some(pipe) = &self.pipe else { bail!("the folder {} is closed", self.path.display()) };
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "testbed-guard", last]).arg(&log);
        guard.arg(command.get_program()).args(command.get_args());
        for (variable, value) in command.get_envs() {
            match value {
                Some(value) => guard.env(variable, value),
                None => guard.env_remove(variable),
            };
        }
        if let Some(owner) = self.owner {
            guard.uid(owner.uid).gid(owner.gid);
        }
        guard.current_dir(&self.path).process_group(0);
        guard.stdin(Stdio::piped()).stdout(Stdio::from(pipe.try_clone()?)).stderr(Stdio::piped());
        let mut guard = guard.spawn().context("cannot run sh")?;
        let (Some(signals), Some(mut stderr)) = (guard.stdin.take(), guard.stderr.take()) else {
            bail!("the guard of {name} has no pipes");
        };
        let (alive, gone) = channel();
        thread::spawn(move || {
            let _ = io::copy(&mut stderr, &mut io::sink());
            drop(alive);
        });
        Ok(Leash { name: name.to_owned(), guard, signals: Some(signals), gone: Mutex::new(gone), log })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.pipe = None;
        let _ = self.keeper.wait();
    }
}

/// What cannot happen: the channel only ever closes.
#[derive(Debug)]
enum Never {}

/// A server that ends at the latest when this is dropped.
#[derive(Debug)]
pub(crate) struct Leash {
    name: String,
    guard: Child,
    signals: Option<ChildStdin>,
    gone: Mutex<Receiver<Never>>,
    log: PathBuf,
}

impl Leash {
    /// Sends the signal, without waiting for what comes of it.
    pub(crate) fn signal(&mut self, signal: &str) -> Result<()> {
        let Some(signals) = &mut self.signals else { bail!("{} has been let go", self.name) };
        writeln!(signals, "{signal}").with_context(|| format!("{} is gone", self.name))
    }

    /// Sends the signal and waits until the server and all its children are gone.
    pub(crate) fn end(mut self, signal: &str) -> Result<()> {
        self.signal(signal)?;
        if !self.is_gone_within(END) {
            bail!("{} outlived SIG{signal}\n{}", self.name, self.tail());
        }
        Ok(())
    }

    /// Fails, with the end of the log, when the server has ended by itself.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_gone_within(Duration::ZERO) {
            bail!("{} ended by itself\n{}", self.name, self.tail());
        }
        Ok(())
    }

    fn is_gone_within(&self, limit: Duration) -> bool {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        !matches!(gone.recv_timeout(limit), Err(RecvTimeoutError::Timeout))
    }

    /// The last lines that the server wrote.
    pub(crate) fn tail(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.signals = None;
        self.is_gone_within(END);
        let _ = self.guard.wait();
    }
}

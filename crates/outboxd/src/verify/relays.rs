//! The relays: the program itself, as processes of their own, which are started again whenever they are gone.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex as PlainMutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use tokio::process::{Child, Command};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::locked;

/// How many run all the time.
pub(super) const USUAL: usize = 3;

/// How many there are when there are many.
pub(super) const MANY: usize = 10;

/// How long a relay may take to end after SIGTERM: it drains for 5 seconds at most.
const END: Duration = Duration::from_secs(20);

const LOOK: Duration = Duration::from_millis(100);

/// Ends everything in its process group when we are gone, however we went: the kernel closes the pipe.
const LEASH: &str = "while read -r _; do :; done; kill -s KILL 0";

/// Starts a relay that is told of a file that may not grow, instead of being ended for it.
const START: &str = "trap '' XFSZ; exec \"$@\"";

/// The relays of a run.
pub(super) struct Relays {
    program: PathBuf,
    config: PathBuf,
    folder: PathBuf,
    group: i32,
    _leash: Child,
    slots: Vec<Mutex<Slot>>,
    /// What ended though nobody ended it, and how.
    bad_ends: PlainMutex<Vec<String>>,
    /// How many faults are going on in which a relay may end by itself, and how many have gone on.
    forgiving: AtomicUsize,
    forgiven: AtomicUsize,
}

/// One relay, or the place for one.
#[derive(Default)]
pub(super) struct Slot {
    number: usize,
    child: Option<Child>,
    /// What had been forgiven when it was started: whatever came since, it has lived through.
    forgiven: usize,
    environment: BTreeMap<String, String>,
}

impl Relays {
    /// None runs yet.
    pub(super) fn new(folder: &Path, config: &Path) -> anyhow::Result<Self> {
        let mut leash = Command::new("sh");
        leash.args(["-c", LEASH]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let leash = leash.process_group(0).spawn().context("cannot run sh")?;
        let group = leash.id().and_then(|id| i32::try_from(id).ok()).context("sh has ended at once")?;
        Ok(Self {
            program: std::env::current_exe().context("cannot find this program")?,
            config: config.to_owned(),
            folder: folder.to_owned(),
            group,
            _leash: leash,
            slots: (0..MANY).map(|number| Mutex::new(Slot { number, ..Slot::default() })).collect(),
            bad_ends: PlainMutex::default(),
            forgiving: AtomicUsize::new(0),
            forgiven: AtomicUsize::new(0),
        })
    }

    /// Takes one of those that always run, so that no other fault meets it.
    pub(super) async fn usual(&self, choice: u64) -> MutexGuard<'_, Slot> {
        let first = usize::try_from(choice % USUAL as u64).unwrap_or_default();
        // One that is in the midst of another fault is left to it.
        let free = (0..USUAL).find_map(|more| self.slots[(first + more) % USUAL].try_lock().ok());
        match free {
            Some(slot) => slot,
            None => self.slots[first].lock().await,
        }
    }

    /// Takes the places of those that run only at times.
    pub(super) async fn extra(&self) -> Vec<MutexGuard<'_, Slot>> {
        let mut slots = Vec::new();
        for slot in &self.slots[USUAL..] {
            slots.push(slot.lock().await);
        }
        slots
    }

    pub(super) async fn start_usual(&self) -> anyhow::Result<()> {
        for slot in &self.slots[..USUAL] {
            self.start(&mut *slot.lock().await)?;
        }
        Ok(())
    }

    /// Starts a relay in this place.
    pub(super) fn start(&self, slot: &mut Slot) -> anyhow::Result<()> {
        let path = self.folder.join(log_name(slot.number));
        let log = OpenOptions::new().create(true).append(true).open(path)?;
        let mut command = Command::new("sh");
        command
            .args(["-c", START, "outboxd"])
            .arg(&self.program)
            .arg("run")
            .arg("--config")
            .arg(&self.config);
        command.args(["--log-format", "text", "--color", "never"]).env_remove("OUTBOXD_CONFIG");
        command.envs(&slot.environment).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        slot.forgiven = self.forgiven.load(Ordering::SeqCst);
        let child = command.process_group(self.group).kill_on_drop(true).spawn();
        slot.child = Some(child.context("cannot start a relay")?);
        Ok(())
    }

    /// Starts those again that ended by themselves, until the stop; notes why they should not have.
    pub(super) async fn keep_alive(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            for slot in &self.slots[..USUAL] {
                // Whoever holds it sees to it.
                let Ok(mut slot) = slot.try_lock() else { continue };
                if slot.child.is_none() || self.is_alive(&mut slot) {
                    continue;
                }
                if let Err(error) = self.start(&mut slot) {
                    self.note_bad_end(format!("{error:#}"));
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether it runs; if it has ended though nobody ended it, that is noted.
    pub(super) fn is_alive(&self, slot: &mut Slot) -> bool {
        let Some(child) = &mut slot.child else { return false };
        let Ok(Some(status)) = child.try_wait() else { return true };
        let is_forgiven = slot.forgiven != self.forgiven.load(Ordering::SeqCst);
        if !is_forgiven && self.forgiving.load(Ordering::SeqCst) == 0 {
            let number = slot.number;
            self.note_bad_end(format!("relay {number} ended by itself: {status}; see relay-{number}.log"));
        }
        slot.child = None;
        false
    }

    fn note_bad_end(&self, what: String) {
        locked(&self.bad_ends).push(what);
    }

    pub(super) fn bad_ends(&self) -> Vec<String> {
        locked(&self.bad_ends).clone()
    }

    /// Whoever lives while this is held may end by itself; also later, once something has happened that it may have met.
    pub(super) fn forgive(&self) -> Forgiving<'_> {
        self.forgiving.fetch_add(1, Ordering::SeqCst);
        Forgiving { relays: self, has_met: false }
    }

    /// Sends SIGTERM and waits for the end; tells whether there was somebody to stop. Nobody has to end well who cannot
    /// drain.
    pub(super) async fn term(&self, slot: &mut Slot, must_end_well: bool) -> bool {
        if !self.is_alive(slot) {
            return false;
        }
        let Some(mut child) = slot.child.take() else { return false };
        send(&child, Signal::TERM);
        let number = slot.number;
        match timeout(END, child.wait()).await {
            // The signal itself was its end: it did not listen yet, so it has begun nothing that it could end well.
            Ok(Ok(status)) if status.signal() == Some(Signal::TERM.as_raw()) => return false,
            Ok(Ok(status)) if status.success() || !must_end_well => {}
            Ok(Ok(status)) => {
                self.note_bad_end(format!(
                    "relay {number} was stopped by SIGTERM and ended with {status}; see relay-{number}.log"
                ));
            }
            Ok(Err(error)) => self.note_bad_end(format!("relay {number} cannot be waited for: {error}")),
            Err(_) => {
                self.note_bad_end(format!(
                    "relay {number} did not end within {END:?} of SIGTERM; see relay-{number}.log"
                ));
                slot.child = Some(child);
                slot.kill().await;
            }
        }
        true
    }

    /// SIGKILL; tells whether there was somebody to kill.
    pub(super) async fn kill(&self, slot: &mut Slot) -> bool {
        let lived = self.is_alive(slot);
        slot.kill().await;
        lived
    }

    /// Stops those that always run, one after the other, and starts them again.
    pub(super) async fn restart(&self) -> anyhow::Result<()> {
        for slot in &self.slots[..USUAL] {
            let mut slot = slot.lock().await;
            self.term(&mut slot, false).await;
            self.start(&mut slot)?;
        }
        Ok(())
    }

    /// Stops all of them, and looks how they end.
    pub(super) async fn finish(&self) {
        let ends = self.slots.iter().map(|slot| async {
            let mut slot = slot.lock().await;
            self.term(&mut slot, true).await;
        });
        futures_util::future::join_all(ends).await;
    }

    /// Ends all of them at once.
    pub(super) async fn kill_all(&self) {
        for slot in &self.slots {
            slot.lock().await.kill().await;
        }
    }

    /// Lets nobody write to a file; tells how many relays that has met. Who is being broken otherwise is spared.
    pub(super) fn forbid_files(&self) -> usize {
        let free = self.slots[..USUAL].iter().filter_map(|slot| slot.try_lock().ok());
        free.filter(|slot| slot.limit_files(Some(0))).count()
    }

    /// Lets everybody write to files again.
    pub(super) async fn allow_files(&self) {
        for slot in &self.slots[..USUAL] {
            slot.lock().await.limit_files(None);
        }
    }
}

/// See [`Relays::forgive`].
pub(super) struct Forgiving<'r> {
    relays: &'r Relays,
    pub(super) has_met: bool,
}

impl Drop for Forgiving<'_> {
    fn drop(&mut self) {
        if self.has_met {
            self.relays.forgiven.fetch_add(1, Ordering::SeqCst);
        }
        self.relays.forgiving.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Slot {
    async fn kill(&mut self) {
        self.environment.clear();
        if let Some(mut child) = self.child.take() {
            let _ = child.kill().await;
        }
    }

    /// Sets something in the environment of its next life.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }

    /// Sets how large a file may be that it writes to; tells whether it could be set.
    fn limit_files(&self, most: Option<u64>) -> bool {
        let limit = Rlimit { current: most, maximum: None };
        let pid = self.child.as_ref().and_then(pid);
        pid.is_some_and(|pid| prlimit(Some(pid), Resource::Fsize, limit).is_ok())
    }

    /// SIGSTOP.
    pub(super) fn halt(&self) {
        self.child.as_ref().inspect(|child| send(child, Signal::STOP));
    }

    /// SIGCONT.
    pub(super) fn go_on(&self) {
        self.child.as_ref().inspect(|child| send(child, Signal::CONT));
    }
}

/// What the log of a relay is called.
pub(super) fn log_name(number: usize) -> String {
    format!("relay-{number}.log")
}

fn pid(child: &Child) -> Option<Pid> {
    // None once it was waited for: its number may be somebody else's by then.
    Pid::from_raw(i32::try_from(child.id()?).ok()?)
}

fn send(child: &Child, signal: Signal) {
    if let Some(pid) = pid(child) {
        let _ = kill_process(pid, signal);
    }
}

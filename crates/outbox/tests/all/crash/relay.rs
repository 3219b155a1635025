//! A child process as its parent sees it: started, awaited, stopped, halted, and killed at a step.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use super::child::{ORDERS, Orders, TEST};

/// Long enough for anything that is going to happen at all on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A relay in a process of its own. It ends when this is dropped.
pub(super) struct Relay {
    child: Child,
    /// Apart from the child, for awaiting a child closes its input.
    input: Option<ChildStdin>,
    log: std::path::PathBuf,
}

impl Relay {
    /// Starts one; `failpoints` is what it finds in `OUTBOX_FAILPOINTS`, and its output goes into `folder`.
    pub(super) fn start(orders: &Orders, failpoints: &str, folder: &Path) -> Self {
        let log = folder.join(format!("{}.log", orders.owner));
        let output = std::fs::File::create(&log).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(ORDERS, serde_json::to_string(orders).unwrap())
            .env("OUTBOX_FAILPOINTS", failpoints)
            .stdin(Stdio::piped())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { input: child.stdin.take(), child, log }
    }

    /// Whether it has been killed; a relay that ended otherwise fails the test.
    pub(super) fn is_killed(&mut self) -> bool {
        let Some(status) = self.child.try_wait().unwrap() else { return false };
        assert_eq!(status.signal(), Some(9), "it ended with {status}\n{}", self.output());
        true
    }

    /// Kills it now, wherever it is.
    pub(super) fn kill(&mut self) {
        self.child.start_kill().unwrap();
    }

    /// Closes its input, at which it drains and leaves.
    pub(super) fn tell_to_stop(&mut self) {
        drop(self.input.take());
    }

    /// Has it leave in good order.
    pub(super) async fn stop(mut self) {
        self.tell_to_stop();
        let Ok(status) = timeout(PATIENCE, self.child.wait()).await else {
            panic!("it does not stop\n{}", self.output());
        };
        assert!(status.unwrap().success(), "{}", self.output());
    }

    /// Halts it, as a laptop does that is closed; `go_on` is the opposite.
    pub(super) fn halt(&self) {
        self.signal(Signal::STOP);
    }

    pub(super) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())).expect("it runs");
        kill_process(pid, signal).unwrap();
    }

    pub(super) fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

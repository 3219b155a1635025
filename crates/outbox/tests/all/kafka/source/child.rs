//! A member of a group in a process of its own, so that it can be killed: this same test binary, started again.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use outbox::kafka::Group;
use outbox::lines::Lines;
use outbox::{Cause, Message, Outcome, Pipe, Sink, code};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use super::{config, policy};

/// The variable that makes a run of the test binary a child: URL, topic, group and file, in lines.
const ORDERS: &str = "OUTBOX_KAFKA_CHILD";

/// The test that the parent runs in the child.
const TEST: &str = "kafka::source::child::reads_when_told_to";

/// Not a test by itself: it ends at once unless a parent has left its orders. It runs until its input is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_when_told_to() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let mut orders = orders.lines();
    let mut next = || orders.next().unwrap().to_owned();
    let (url, topic, group, file) = (next(), next(), next(), next());
    let stop = CancellationToken::new();
    std::thread::spawn({
        let stop = stop.clone();
        move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            stop.cancel();
        }
    });
    let mut config = config(&topic, &group);
    config.client_name = format!("c{}", std::process::id());
    config.session_timeout = Duration::from_secs(2);
    let rules = policy(&config);
    let pipe = Pipe::new(Group::new(&url, config).unwrap(), Slow(Lines::file(file))).policy(rules);
    pipe.batch(20).depth(3).idle(Duration::from_millis(50)).run(stop).await.unwrap();
}

/// A handler in no hurry, at which some messages fail at first.
struct Slow(Lines);

#[async_trait]
impl Sink for Slow {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let fails = |message: &Message| message.payload.ends_with(b"3") && message.attempts == 0;
        let good: Vec<Message> = messages.iter().filter(|message| !fails(message)).cloned().collect();
        let mut delivered = self.0.deliver(&good).await.into_iter();
        let failed = || Outcome::rejected(Cause::new(code::HANDLER, "at first"));
        let outcome = |message: &Message| if fails(message) { failed() } else { delivered.next().unwrap() };
        messages.iter().map(outcome).collect()
    }
}

/// A member that is killed when this is dropped.
pub(super) struct Member {
    child: Child,
    file: PathBuf,
}

impl Member {
    pub(super) fn start(url: &str, topic: &str, group: &str, folder: &Path, name: &str) -> Self {
        let file = folder.join(format!("{name}.jsonl"));
        let output = std::fs::File::create(folder.join(format!("{name}.log"))).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(ORDERS, format!("{url}\n{topic}\n{group}\n{}", file.display()))
            .stdin(Stdio::piped())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { child, file }
    }

    pub(super) fn file(&self) -> PathBuf {
        self.file.clone()
    }

    /// SIGKILL.
    pub(super) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Closes its input, at which it drains and leaves.
    pub(super) async fn stop(mut self) {
        drop(self.child.stdin.take());
        let ended = tokio::time::timeout(super::PATIENCE, self.child.wait()).await;
        assert!(ended.expect("it stops").unwrap().success());
    }
}

/// How often each message was handled, by its id; the end of a file may be cut off by a kill.
pub(super) fn handled(files: &[PathBuf]) -> BTreeMap<String, usize> {
    let mut ids = BTreeMap::new();
    for file in files {
        for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
            let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            *ids.entry(line["id"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    ids
}

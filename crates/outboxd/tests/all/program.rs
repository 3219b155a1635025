//! Runs the binary and listens to it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything takes on a busy machine; a test that waits so long has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A pipe to a file in a folder that is not there yet: until it is made, every message is dead at once.
pub const RELAY: &str = r#"
[connections]
shop = "sqlite:shop.db"
[sources.orders]
on = "shop"
[sinks.lines]
file = "out/lines.jsonl"
[pipes.relay]
from = "orders"
to = "lines"
poll = "10ms"
outage = "count"
attempts = 1
"#;

/// A folder with a configuration, and the program in it.
pub struct Program {
    folder: TempDir,
    environment: Vec<(String, String)>,
}

/// What a run left behind.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Program {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), environment: Vec::new() }
    }

    pub fn with(config: &str) -> Self {
        let program = Self::new();
        program.write("outboxd.toml", config);
        program
    }

    /// With a variable in its environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With its tables made.
    pub fn migrated(config: &str) -> Self {
        let program = Self::with(config);
        program.ok(&["migrate"]);
        program
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn make_folder(&self, name: &str) {
        std::fs::create_dir(self.path(name)).unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outboxd"));
        command.args(args).current_dir(self.folder.path()).env_remove("OUTBOXD_CONFIG").stdin(Stdio::null());
        // As on a terminal: tests read it as people do.
        command.env("OUTBOXD_LOG_FORMAT", "text");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Self::finish(&mut self.command(args))
    }

    pub fn finish(command: &mut Command) -> Ran {
        let output = command.output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs, must succeed, and gives standard output.
    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:#?}");
        ran.stdout
    }

    /// Runs with `--format json`, must succeed, and gives the value.
    pub fn json(&self, args: &[&str]) -> Value {
        let mut with_format = args.to_vec();
        with_format.extend(["--format", "json"]);
        let text = self.ok(&with_format);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
    }

    /// Sends a message and gives its id.
    pub fn send(&self, key: &str) -> String {
        self.ok(&["send", "--type", "order.created", "--key", key, "--data", "{\"id\":1}"]).trim().to_owned()
    }

    pub fn start(&self, args: &[&str]) -> Running {
        Self::begin(&mut self.command(args))
    }

    pub fn begin(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = follow(child.stdout.take().unwrap());
        let stderr = follow(child.stderr.take().unwrap());
        Running { child, stdout, stderr, said: Vec::new() }
    }
}

impl Ran {
    /// Exactly one error line, and the help line after it.
    pub fn only_error(&self, code: i32) -> (&str, &str) {
        assert_eq!(self.code, code, "{self:#?}");
        let lines: Vec<&str> = self.stderr.lines().collect();
        assert_eq!(lines.len(), 2, "{self:#?}");
        let error = lines[0].strip_prefix("error: ").unwrap_or_else(|| panic!("{self:#?}"));
        let help = lines[1].strip_prefix("help: ").unwrap_or_else(|| panic!("{self:#?}"));
        (error, help)
    }
}

/// A program that is still at it; killed when dropped.
pub struct Running {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    said: Vec<String>,
}

impl Running {
    /// Waits for a line of the log.
    pub fn wait_for(&mut self, words: &str) -> String {
        loop {
            let line = self.stderr.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("'{words}' was never said: {:#?}", self.said));
            self.said.push(line.clone());
            if line.contains(words) {
                return line;
            }
        }
    }

    /// What it has said so far, and not yet been heard by `wait_for`.
    pub fn heard(&mut self) -> Vec<String> {
        let lines: Vec<String> = self.stderr.try_iter().collect();
        self.said.extend(lines.iter().cloned());
        lines
    }

    /// Kills it, as a power cut would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Everything that was heard.
    pub fn said(&self) -> String {
        self.said.join("\n")
    }

    /// Waits for a line of data.
    pub fn next_line(&self) -> String {
        self.stdout.recv_timeout(PATIENCE).unwrap()
    }

    /// Nobody listens to its data any more.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// The most memory that it has held at a time, in KiB.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Waits for the end; gives all of its data besides.
    pub fn end_with_data(mut self) -> Ran {
        let stdout: Vec<String> = std::iter::from_fn(|| self.stdout.recv().ok()).collect();
        self.said.extend(self.stderr.iter());
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Ran { code, stdout: stdout.join("\n"), stderr: self.said.join("\n") }
    }

    /// Waits for the end; gives the exit code and everything that was said.
    pub fn end(mut self) -> (i32, String) {
        while let Ok(line) = self.stderr.recv_timeout(PATIENCE) {
            self.said.push(line);
        }
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (code, self.said.join("\n"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn follow(from: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}

/// How many messages a relay has delivered, by its last words.
pub fn delivered(said: &str) -> u64 {
    let counts = said.lines().filter(|line| line.contains(" stopped ")).map(|line| {
        let (_, count) = line.split_once("delivered=").unwrap_or_else(|| panic!("{line}"));
        count.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    });
    counts.sum()
}

/// Every file of a folder that is text.
pub fn texts(folder: &Path) -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter_map(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?))).collect()
}

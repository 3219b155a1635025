//! The relay that is measured: `outboxd run` itself, as a process of its own with a configuration of its own.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::process::{Child, ChildStdout, Command};

use super::Bench;
use super::measure::Pace;

/// Where the relay finds the URLs, so that no secret is written to a file.
pub(super) const DATABASE: &str = "OUTBOXD_BENCH_DATABASE";
pub(super) const BROKER: &str = "OUTBOXD_BENCH_BROKER";

/// The name of the pipe, and so of its cursor.
pub(super) const PIPE: &str = "bench";

/// How often it is looked how far a run is. It is asked of the database, and must not be what that is busy with.
const LOOK: Duration = Duration::from_millis(10);

/// How long nothing may happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a relay may take to stop.
const STOP: Duration = Duration::from_secs(20);

/// What a relay is to do: lines of TOML for its source, its sink and its pipe.
#[derive(Debug, Clone, Default)]
pub(super) struct Job {
    pub(super) source: String,
    pub(super) sink: String,
    pub(super) pipe: String,
    /// What comes after these sections.
    pub(super) more: String,
    pub(super) environment: Vec<(&'static str, String)>,
}

impl Job {
    fn config(&self, bench: &Bench<'_>) -> String {
        let mut config =
            String::from("# Made by `outboxd bench`.\n[log]\nlevel = \"warn\"\nformat = \"text\"\n");
        for (name, _) in &self.environment {
            let connection = if *name == DATABASE { "database" } else { "broker" };
            // Whether it may has been decided where the connection was written.
            let _ = write!(config, "\n[connections.{connection}]\nurl = \"${{{name}}}\"\nplaintext = true\n");
        }
        let own = |lines: &[String]| lines.join("\n");
        let (source, pipe) = (own(&bench.args.source), own(&bench.args.pipe));
        let _ = write!(config, "\n[sources.source]\n{}\n{source}\n", self.source);
        let _ = write!(config, "\n[sinks.sink]\n{}\n", self.sink);
        let _ = write!(config, "\n[pipes.{PIPE}]\nfrom = \"source\"\nto = \"sink\"\n{}\n{pipe}\n", self.pipe);
        config + "\n" + &self.more
    }
}

/// A running relay; killed when dropped.
pub(super) struct Relay {
    child: Child,
    pid: u32,
    log: PathBuf,
    begun: Instant,
}

impl Relay {
    /// Starts one.
    pub(super) async fn start(bench: &Bench<'_>, job: &Job) -> anyhow::Result<Self> {
        let folder = bench.ground.folder.path();
        let (config, log) = (folder.join("outboxd.toml"), folder.join("relay.log"));
        std::fs::write(&config, job.config(bench))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--config").arg(&config).args(["--log-format", "text", "run"]).current_dir(folder);
        command.envs(job.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(std::fs::File::create(&log)?);
        // A process group of its own: a Ctrl-C is for us, and we stop it.
        let child =
            command.process_group(0).kill_on_drop(true).spawn().context("cannot start outboxd run")?;
        let pid = child.id().context("the relay has ended at once")?;
        Ok(Self { child, pid, log, begun: Instant::now() })
    }

    /// The id of its process.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// What it writes to its standard output; once.
    pub(super) fn stdout(&mut self) -> anyhow::Result<ChildStdout> {
        self.child.stdout.take().context("its output is read already")
    }

    /// Whether it is still at it.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the relay has ended ({status}): {}", self.last_words()),
        }
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("; ")
    }

    /// Waits until so many are carried. The pace is that after the first were seen, so that it is not that of the start.
    pub(super) async fn until(
        &mut self,
        count: u64,
        carried: impl AsyncFn() -> anyhow::Result<u64>,
    ) -> anyhow::Result<Pace> {
        let mut first: Option<(u64, Instant)> = None;
        let mut last = (0, Instant::now());
        loop {
            self.check()?;
            let (now, seen) = (carried().await?, Instant::now());
            if now > last.0 {
                last = (now, seen);
                first = first.or(Some(last));
            }
            if now >= count {
                return Ok(pace(first, (now, seen), self.begun));
            }
            if last.1.elapsed() > PATIENCE {
                let words = self.last_words();
                bail!("only {now} of {count} messages were carried, and none for {PATIENCE:?}: {words}");
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Stops it as an operator does.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        let kill = Command::new("kill").args(["-s", "TERM", &self.pid.to_string()]).status().await;
        if !kill.is_ok_and(|status| status.success()) {
            return Ok(self.child.kill().await?);
        }
        match tokio::time::timeout(STOP, self.child.wait()).await {
            Ok(status) if status.as_ref().is_ok_and(std::process::ExitStatus::success) => Ok(()),
            Ok(status) => bail!("the relay has ended with {}: {}", status?, self.last_words()),
            Err(_) => Ok(self.child.kill().await?),
        }
    }
}

/// From the first that were seen to the last; from the start, if there is little in between.
fn pace(first: Option<(u64, Instant)>, (count, at): (u64, Instant), begun: Instant) -> Pace {
    match first {
        Some((some, since)) if some <= count / 2 => {
            Pace { carried: count, messages: count - some, took: at.duration_since(since) }
        }
        _ => Pace { carried: count, messages: count, took: at.duration_since(begun) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_leaves_out_the_start_where_it_can() {
        let begun = Instant::now();
        let after = |ms| begun + Duration::from_millis(ms);
        let (first, last) = (Some((100, after(500))), (1_100, after(1_000)));
        let Pace { messages, took, .. } = pace(first, last, begun);
        assert_eq!((messages, took), (1_000, Duration::from_millis(500)));
        let Pace { messages, took, .. } = pace(Some((1_100, after(1_000))), last, begun);
        assert_eq!((messages, took), (1_100, Duration::from_secs(1)));
    }
}

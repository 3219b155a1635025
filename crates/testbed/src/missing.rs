//! What happens to a test whose server is not installed: it fails in CI, elsewhere it is skipped, loudly.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{Write, stderr};
use std::thread;

use anyhow::Result;

/// Names the file that gets one line for each skipped test.
pub const SKIPS: &str = "OUTBOX_TESTBED_SKIPS";

/// A server that is not installed.
#[derive(Clone, Debug)]
pub struct Missing {
    /// The product.
    pub server: &'static str,
    /// The command that installs it.
    pub install: &'static str,
    /// Whether its tests may be skipped in CI too.
    pub in_ci: bool,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not installed; to install it: {}", self.server, self.install)
    }
}

impl std::error::Error for Missing {}

/// The server, or `None` when it is not installed and the test is to be skipped.
///
/// Panics when the server is there but does not start, and in CI also when it is not there: a green
/// run must not mean that nothing was tested. Kafka is the exception, since it is in no package of the system.
///
/// ```no_run
/// # async fn example() {
/// let Some(mut broker) = testbed::available(testbed::RabbitMq::start().await) else { return };
/// broker.kill().await.expect("the broker dies");
/// # }
/// ```
#[track_caller]
pub fn available<T>(server: Result<T>) -> Option<T> {
    match server {
        Ok(server) => Some(server),
        Err(error) if may_skip(&error) => {
            skip(&error.to_string());
            None
        }
        Err(error) => panic!("{error:#}"),
    }
}

/// Whether this is a server that is not installed and may be missing.
pub(crate) fn may_skip(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Missing>().is_some_and(|missing| missing.in_ci || !in_ci())
}

/// Whether a skip counts as a failure: `CI` is set, and not to `false` or nothing.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

/// Says on standard error that the current test is skipped, and counts it.
pub fn skip(reason: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    // Not `eprintln!`: the test harness swallows what a passing test prints with it.
    let _ = writeln!(stderr(), "SKIPPED: {reason} [{test}]");
    if let Some(path) = std::env::var_os(SKIPS) {
        let line = format!("{test}: {reason}\n");
        let file = OpenOptions::new().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

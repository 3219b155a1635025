//! Keeps lines that repeat from being written, and writes their sums.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::sums::{About, Key, Sum, Sums, gist};

/// How often one looks whether a sum is due.
const LOOK: Duration = Duration::from_secs(1);

/// The target of sums, which are never summed up themselves.
const TARGET: &str = "outboxd::sums";

/// The sums of the process, which has one log.
static SUMS: OnceLock<Arc<Mutex<Sums>>> = OnceLock::new();

/// Warnings and errors that say the same are written once, then as a sum every few seconds.
pub(super) struct Repeated(Arc<Mutex<Sums>>);

impl Repeated {
    /// The sums of the process; they are written while the program runs, and by [`finish`].
    pub(super) fn new() -> Self {
        let sums = SUMS.get_or_init(Arc::default).clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let sums = sums.clone();
            runtime.spawn(async move {
                loop {
                    tokio::time::sleep(LOOK).await;
                    let due = lock(&sums).due(Instant::now());
                    due.iter().for_each(tell);
                }
            });
        }
        Self(sums)
    }
}

/// Writes what was not written yet; the program ends.
pub fn finish() {
    if let Some(sums) = SUMS.get() {
        let rest = lock(sums).rest(Instant::now());
        rest.iter().for_each(tell);
    }
}

fn lock(sums: &Mutex<Sums>) -> MutexGuard<'_, Sums> {
    sums.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Not under the lock: writing a line asks whether it repeats.
fn tell(sum: &Sum) {
    let Sum { is_error, more, within, about } = sum;
    let About { message, pipe, source, cause } = about;
    let seconds = within.as_secs().max(1);
    let text = format!("{more} more like this in the last {seconds} s: {message}");
    if *is_error {
        tracing::error!(target: TARGET, pipe, source, cause, more, "{text}");
    } else {
        tracing::warn!(target: TARGET, pipe, source, cause, more, "{text}");
    }
}

impl<S: Subscriber> Layer<S> for Repeated {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        // A panic may be one of this very layer, under its lock.
        let is_passed = metadata.target() == TARGET || std::thread::panicking();
        if *metadata.level() > Level::WARN || is_passed {
            return true;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let is_error = *metadata.level() == Level::ERROR;
        let key = Key { is_error, from: metadata.target(), gist: line.gist() };
        lock(&self.0).is_written(key, line.about, Instant::now())
    }
}

/// A line as far as it tells whether another says the same.
#[derive(Default)]
struct Line {
    about: About,
    /// Fields that are names, which are told apart also where they differ by a number only.
    names: String,
    /// The other fields, save for those that are another one each time.
    rest: String,
}

impl Line {
    fn gist(&self) -> String {
        let About { message, pipe, source, cause } = &self.about;
        let or_none = |name: &Option<String>| name.clone().unwrap_or_default();
        let gist = gist(&format!("{message}\n{}\n{}", or_none(cause), self.rest));
        format!("{}\n{}\n{}{gist}", or_none(pipe), or_none(source), self.names)
    }

    /// Whether it is one of those that are told of by themselves.
    fn take(&mut self, name: &str, value: &str) -> bool {
        let value = || Some(value.to_owned());
        match name {
            "message" => self.about.message = value().unwrap_or_default(),
            "pipe" => self.about.pipe = value(),
            "source" => self.about.source = value(),
            "cause" | "error" => self.about.cause = value(),
            // Which message it is, and how often it was tried, makes no other line of it.
            "id" | "type" | "key" | "attempts" => {}
            _ => return false,
        }
        true
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}");
        if !self.take(field.name(), &value) {
            // Writing to a string cannot fail.
            let _ = writeln!(self.rest, "{}={value}", field.name());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if !self.take(field.name(), value) {
            let _ = writeln!(self.names, "{}={value}", field.name());
        }
    }
}

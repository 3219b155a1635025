//! What ends a verb: an exit code, one line, and what to do about it.

use std::fmt;
use std::io;

use outbox::ErrorKind;

use crate::backends::REBUILD;
use crate::cli::output::Output;
use crate::connection::Connection;
use crate::mistake::Invalid;
use crate::plan::{Layout, SinkPlan, SourcePlan, Target};

/// How the program ends. The list in `--help` is [`crate::cli::args::EXIT_CODES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All went well.
    Ok = 0,
    /// It failed.
    Failed = 1,
    /// Wrong flags or arguments, or not confirmed.
    Usage = 2,
    /// The configuration is invalid.
    Config = 3,
    /// A source cannot be reached.
    Source = 4,
    /// A sink cannot be reached.
    Sink = 5,
    /// Checks found warnings, with `--deny-warnings`.
    Warnings = 6,
    /// The lag is above `--max-lag`.
    Lag = 7,
    /// Left at the second signal.
    Interrupted = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// One failure, ready to be shown.
#[derive(Debug)]
pub struct Trouble {
    /// How the program ends.
    pub exit: Exit,
    what: String,
    help: String,
    fault: Fault,
}

/// Whose fault it is: it decides what somebody is told who asked over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Something was named that is not there.
    Unknown,
    /// What was asked cannot work, whatever state we are in.
    Asked,
    /// Something is not as it should be, here or where we asked.
    Ours,
}

impl Trouble {
    /// A failure, and what to do about it.
    pub fn new(exit: Exit, what: impl Into<String>, help: impl Into<String>) -> Self {
        let fault = if exit == Exit::Usage { Fault::Asked } else { Fault::Ours };
        Self { exit, what: what.into(), help: help.into(), fault }
    }

    /// It is because something was named that is not there.
    #[must_use]
    pub fn unknown(self) -> Self {
        Self { fault: Fault::Unknown, ..self }
    }

    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        self.fault
    }

    /// What to do about it.
    pub fn help(&self) -> &str {
        &self.help
    }

    /// A flag or argument that cannot work.
    pub fn usage(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what, help)
    }

    /// Something failed at a source.
    pub fn at_source(doing: &str, source: &SourcePlan, error: &outbox::Error) -> Self {
        let trouble =
            Self::at(doing, &format!("source '{}' at {}", source.name, source.connection.url), error);
        match (&source.layout, REBUILD) {
            (Layout::Topic(_), Some(rebuild)) => Self { help: rebuild.to_owned(), ..trouble },
            _ => trouble,
        }
    }

    /// Something failed at a database that is no source.
    pub fn at_database(doing: &str, connection: &Connection, error: &outbox::Error) -> Self {
        Self::at(doing, &format!("connection '{}' at {}", connection.name, connection.url), error)
    }

    fn at(doing: &str, place: &str, error: &outbox::Error) -> Self {
        let exit = if is_out_of_reach(error.kind()) { Exit::Source } else { Exit::Failed };
        // A pipe tries again by itself, a verb does not.
        let help = error.advice().replace("it is tried again by itself", "try again later");
        let help = help.replace("work resumes by itself", "then try again");
        let trouble = Self::new(exit, format!("{doing} ({place}): {}", error.chain()), help);
        match error.kind() {
            ErrorKind::Invalid => Self { fault: Fault::Asked, ..trouble },
            ErrorKind::NotFound => trouble.unknown(),
            _ => trouble,
        }
    }

    /// Something failed at a sink.
    pub fn at_sink(doing: &str, sink: &SinkPlan, error: &outbox::Error) -> Self {
        let place = match (&sink.target, sink.target.connection()) {
            (_, Some(connection)) => format!("sink '{}' at {}", sink.name, connection.url),
            // Its URL may hold a secret in any part.
            (Target::Http(_), _) => format!("sink '{}', an endpoint", sink.name),
            (Target::File(path), _) => format!("sink '{}', {}", sink.name, path.display()),
            (Target::Metrics(_), _) => format!("sink '{}', metrics", sink.name),
            _ => format!("sink '{}', standard output", sink.name),
        };
        let help = match (&sink.target, REBUILD) {
            (Target::Topic(..), Some(rebuild)) => rebuild,
            _ => error.advice(),
        };
        Self::new(Exit::Sink, format!("{doing} ({place}): {}", error.chain()), help)
    }
}

/// Whether nothing could be asked at all.
pub fn is_out_of_reach(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::Busy | ErrorKind::Denied)
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Trouble {}

/// Shows why a verb ended, and tells how the program ends.
pub fn report(error: &anyhow::Error, output: &Output) -> Exit {
    if let Some(invalid) = error.downcast_ref::<Invalid>() {
        for mistake in &invalid.mistakes {
            output.error(mistake, &mistake.help);
        }
        return Exit::Config;
    }
    if let Some(trouble) = error.downcast_ref::<Trouble>() {
        output.error(trouble, &trouble.help);
        return trouble.exit;
    }
    if let Some(error) = error.downcast_ref::<outbox::Error>() {
        output.error(error.chain(), error.advice());
        return Exit::Failed;
    }
    if is_closed_output(error) {
        return Exit::Ok;
    }
    output.error(format!("{error:#}"), "");
    Exit::Failed
}

/// Whether whoever read our output has heard enough (`| head`), which is no failure.
fn is_closed_output(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

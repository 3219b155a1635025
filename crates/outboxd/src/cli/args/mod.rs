//! What can be typed. Only shapes and words; what a verb does is in its own file.

mod bench;
mod repair;
mod send;
mod verify;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use outbox::admin::Stand;

pub use bench::{BenchArgs, Scenario};
pub use repair::{By, Consent, PauseArgs, PurgeArgs, RepairArgs, ReplayArgs, ResumeArgs};
pub use send::SendArgs;
pub use verify::VerifyArgs;

use super::audit::args::AuditVerb;
use super::dlq::args::DlqVerb;
use super::errors::args::ErrorsVerb;
use crate::options::LogFormat;
use crate::quantity::parse_duration;
use crate::secret::SecretUrl;

/// The end of `--help`; `docs/reference/cli.md` has the same list.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    ok
  1    failed
  2    wrong usage, or not confirmed
  3    the configuration is invalid
  4    a source cannot be reached, or refuses us
  5    a sink cannot be reached
  6    checks found warnings, with --deny-warnings
  7    the lag is above --max-lag
  130  left at the second signal, without draining

Data goes to standard output, everything else to standard error.";

/// Carries events from a database transaction to whoever must hear of them.
#[derive(Debug, Parser)]
#[command(name = "outboxd", version, after_help = EXIT_CODES, propagate_version = true)]
pub struct Cli {
    /// Flags of every verb.
    #[command(flatten)]
    pub global: Global,
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Flags of every verb.
#[derive(Debug, Args)]
pub struct Global {
    /// The configuration
    #[arg(long, global = true, env = "OUTBOXD_CONFIG", default_value = "outboxd.toml", value_name = "PATH")]
    pub config: PathBuf,
    /// Whether that was said on the command line.
    #[arg(skip)]
    pub names_config: bool,
    /// How data is written to standard output
    #[arg(long, global = true, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Says more; twice says everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Says less; twice only errors
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "verbose")]
    pub quiet: u8,
    /// Whether to use colour on standard error; NO_COLOR is honoured
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
    /// How the log is written to standard error; goes before `[log]` of the configuration
    #[arg(long, global = true, env = "OUTBOXD_LOG_FORMAT", value_parser = parse_log_format, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
}

fn parse_log_format(word: &str) -> Result<LogFormat, String> {
    let known = LogFormat::WORDS.iter().find(|(known, _)| *known == word);
    known.map(|(_, format)| *format).ok_or_else(|| "known are auto, text and json".to_owned())
}

/// How data is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For scripts.
    Json,
}

/// Whether to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Writes a commented configuration that runs at once
    Init(InitArgs),
    /// Checks the configuration, offline, and tells every mistake
    Validate,
    /// Looks at every source and sink, and tells what is wrong with the fix to copy
    Doctor(DoctorArgs),
    /// Makes or updates our tables, of logs, inboxes, error logs and the audit, or prints their SQL
    Migrate(MigrateArgs),
    /// Runs every pipe until a signal: the first drains, the second leaves
    Run(RunArgs),
    /// A small shop, three pipes and what goes wrong, in a folder of its own
    Demo(DemoArgs),
    /// Breaks things and counts: whether anything is lost, made up, doubled or out of order
    Verify(VerifyArgs),
    /// Tells how every pipe stands
    Status(StatusArgs),
    /// Shows how every pipe stands, live in the terminal
    Top(TopArgs),
    /// Lists messages
    List(ListArgs),
    /// Shows a message and its whole life: pipes, consumers, dead letters, error tables
    Show(ShowArgs),
    /// Tries messages that are set aside again, at once and with all attempts
    Retry(RepairArgs),
    /// Lets messages that are set aside go; their keys go on
    Skip(RepairArgs),
    /// Moves a pipe back, so that messages come again
    Replay(ReplayArgs),
    /// Removes what every pipe has done
    Purge(PurgeArgs),
    /// Lets pipes stand still, in all instances, until they are resumed
    Pause(PauseArgs),
    /// Lets paused pipes go on
    Resume(ResumeArgs),
    /// Sees and repairs dead letters: in queues and topics, and set aside in outboxes
    Dlq {
        /// What to do with them.
        #[command(subcommand)]
        verb: DlqVerb,
    },
    /// Sees and repairs what is in the error tables
    Errors {
        /// What to do with them.
        #[command(subcommand)]
        verb: ErrorsVerb,
    },
    /// Tells who repaired what
    Audit {
        /// What to do with the record.
        #[command(subcommand)]
        verb: AuditVerb,
    },
    /// Writes a message into an outbox
    Send(SendArgs),
    /// Measures how fast it is here, beside its limits; without --config on SQLite
    Bench(BenchArgs),
    /// Looks at the configuration
    Config {
        /// What to look at.
        #[command(subcommand)]
        verb: ConfigVerb,
    },
    /// Asks for a password and prints its hash, for people of `[http]`
    Password,
    /// Prints the completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// What to look at in the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Prints the effective configuration: defaults filled in, secrets masked
    Show,
}

/// Flags of `init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Overwrites a configuration that is there
    #[arg(long)]
    pub force: bool,
    /// Looks at this database and maps the table that looks like an outbox
    #[arg(long, value_name = "URL")]
    pub from: Option<SecretUrl>,
}

/// Flags of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Only this source
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Only this sink
    #[arg(long, value_name = "NAME")]
    pub sink: Option<String>,
    /// Sends a message of type outboxd.probe through every exchange, to see whether a queue takes it
    #[arg(long)]
    pub probe: bool,
    /// A type to make routing keys and topics of; may be repeated. By default types that wait in the source
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Vec<String>,
    /// Ends with exit code 6 if there are warnings and nothing worse
    #[arg(long)]
    pub deny_warnings: bool,
}

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Database {
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
    /// MariaDB and MySQL: the tables of inboxes, error logs and the audit.
    Mysql,
}

/// Flags of `migrate`.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// Prints the SQL instead of applying it; with a kind, needs no configuration
    #[arg(long, value_name = "KIND", num_args = 0..=1)]
    pub print: Option<Option<Database>>,
    /// Only this source
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
}

/// Flags of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Carries what is pending, then leaves; what must wait is left for later
    #[arg(long)]
    pub once: bool,
    /// Only this pipe; may be repeated. The HTTP server is up only for metrics and publishers of these pipes
    #[arg(long, value_name = "NAME")]
    pub pipe: Vec<String>,
    /// Listens for HTTP here, whatever `[http]` says; also with --pipe
    #[arg(long, value_name = "ADDRESS", conflicts_with = "once")]
    pub listen: Option<SocketAddr>,
}

/// Flags of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The folder to work in; a temporary one by default
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Ends by itself after so many seconds
    #[arg(long)]
    pub seconds: Option<u64>,
    /// How the sum is written: the global flag.
    #[arg(skip = Format::Table)]
    pub format: Format,
}

/// Flags of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Only this source
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Ends with exit code 7 if a pipe is further behind
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub max_lag: Option<Duration>,
    /// Also what went on lately: done in the last hour and by minute, and what was tried often
    #[arg(long)]
    pub activity: bool,
}

/// Flags of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Only this source
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// How often to look
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_every)]
    pub every: Duration,
    /// Prints one frame as text, after two looks, and ends
    #[arg(long)]
    pub once: bool,
}

/// Often enough to be live, and not so often that looking is what a database does.
fn parse_every(text: &str) -> Result<Duration, String> {
    let every = parse_duration(text)?;
    let limits = Duration::from_millis(50)..=Duration::from_secs(3_600);
    if limits.contains(&every) { Ok(every) } else { Err("choose from 50ms to 1h".to_owned()) }
}

/// Which messages are meant.
#[derive(Debug, Clone, Default, Args)]
pub struct Selection {
    /// Which messages, as in 'type:order.* state:dead'; what the other flags say must hold as well
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Only this source
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// On this pipe
    #[arg(long, value_name = "NAME")]
    pub pipe: Option<String>,
    /// In this state
    #[arg(long, value_enum)]
    pub state: Option<State>,
    /// Of this type; a trailing * matches any ending
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// Of this key
    #[arg(long)]
    pub key: Option<String>,
    /// With this cause, as in NO_ROUTE
    #[arg(long)]
    pub code: Option<String>,
    /// With this header
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_header)]
    pub header: Option<(String, String)>,
}

/// Where a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// Not read yet.
    Pending,
    /// To be tried again.
    Waiting,
    /// Waits for an earlier one of its key.
    Behind,
    /// Waits for a person.
    Dead,
    /// Done.
    Done,
}

impl From<State> for Stand {
    fn from(state: State) -> Self {
        match state {
            State::Pending => Self::Pending,
            State::Waiting => Self::Waiting,
            State::Behind => Self::Behind,
            State::Dead => Self::Dead,
            State::Done => Self::Done,
        }
    }
}

/// Flags of `list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Which messages.
    #[command(flatten)]
    pub selection: Selection,
    /// This message
    #[arg(long)]
    pub id: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// After this position, to page on
    #[arg(long, value_name = "POSITION")]
    pub after: Option<u64>,
    /// From the newest to the oldest
    #[arg(long)]
    pub newest_first: bool,
}

/// Flags of `show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The id of the message
    pub id: String,
    /// Only this source
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Shows the payload too
    #[arg(long)]
    pub payload: bool,
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a header is written as NAME=VALUE".to_owned()),
    }
}

//! What can be typed to change something: who, whether to ask, what.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;

use super::Selection;
use crate::quantity::parse_duration;

/// Whether to ask before something changes.
#[derive(Debug, Clone, Copy, Args)]
pub struct Consent {
    /// Only tells how many messages are meant
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Does not ask
    #[arg(long, short)]
    pub yes: bool,
}

/// Who does it.
#[derive(Debug, Clone, Args)]
pub struct By {
    /// Who does it, for the record; by default the user and the host
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}

/// Flags of `retry` and `skip`.
#[derive(Debug, Args)]
pub struct RepairArgs {
    /// These messages; without ids and --state, the dead ones
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Which messages.
    #[command(flatten)]
    pub selection: Selection,
    /// Who does it.
    #[command(flatten)]
    pub by: By,
    /// Whether to ask.
    #[command(flatten)]
    pub consent: Consent,
}

/// Flags of `replay`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("from").required(true))]
pub struct ReplayArgs {
    /// The pipe to move back
    #[arg(long, value_name = "NAME")]
    pub pipe: String,
    /// The source, if the pipe is not in the configuration
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// From the first message that is kept
    #[arg(long, group = "from")]
    pub from_start: bool,
    /// From this time on, as in 2026-01-31T12:00:00Z
    #[arg(long, group = "from", value_name = "TIME")]
    pub from_time: Option<Timestamp>,
    /// From this message on
    #[arg(long, group = "from", value_name = "ID")]
    pub from_id: Option<String>,
    /// Who does it.
    #[command(flatten)]
    pub by: By,
    /// Whether to ask.
    #[command(flatten)]
    pub consent: Consent,
}

/// Flags of `purge`.
#[derive(Debug, Args)]
pub struct PurgeArgs {
    /// Only what is older, as in 30d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub older_than: Duration,
    /// Only this source
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Who does it.
    #[command(flatten)]
    pub by: By,
    /// Whether to ask.
    #[command(flatten)]
    pub consent: Consent,
}

/// Flags of `pause`.
#[derive(Debug, Args)]
pub struct PauseArgs {
    /// These pipes
    #[arg(value_name = "PIPE", required = true)]
    pub pipes: Vec<String>,
    /// Why, for whoever wonders
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Who does it.
    #[command(flatten)]
    pub by: By,
}

/// Flags of `resume`.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// These pipes
    #[arg(value_name = "PIPE", required = true)]
    pub pipes: Vec<String>,
    /// Who does it.
    #[command(flatten)]
    pub by: By,
}

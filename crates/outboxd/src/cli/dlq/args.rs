//! What can be typed after `dlq`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use outbox::letters::Pace;

use crate::cli::args::{By, Consent};
use crate::ops::dead;
use crate::quantity::{parse_duration, parse_rate};

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub enum DlqVerb {
    /// Lists dead letters, oldest first
    List(DlqListArgs),
    /// Shows one with all that is known of its death
    Show(DlqShowArgs),
    /// Sends them back to where they died, to be handled again with all attempts
    Retry(DlqActArgs),
    /// Removes them for good
    Discard(DlqActArgs),
    /// Writes them, with headers and payload, as one JSON object per line
    Export(DlqExportArgs),
}

/// Which dead letters are meant.
#[derive(Debug, Clone, Args)]
pub struct Picked {
    /// Only this source
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Of this type; a trailing * matches any ending
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// Of this key
    #[arg(long)]
    pub key: Option<String>,
    /// With this cause, as in HTTP_500
    #[arg(long)]
    pub code: Option<String>,
    /// Died longer ago than this, as in 2h
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub older_than: Option<Duration>,
    /// Died within this time, as in 30m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub newer_than: Option<Duration>,
    /// Looks at no more than so many of each source, from the oldest on
    #[arg(long, default_value_t = 10_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub most: u32,
}

impl Picked {
    /// What is asked for.
    pub fn request(&self) -> dead::Picked {
        dead::Picked {
            source: self.source.clone(),
            kind: self.kind.clone(),
            key: self.key.clone(),
            code: self.code.clone(),
            older_than: self.older_than,
            newer_than: self.newer_than,
            most: NonZeroU32::new(self.most),
        }
    }
}

/// Flags of `dlq list`.
#[derive(Debug, Args)]
pub struct DlqListArgs {
    /// These letters
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Which letters.
    #[command(flatten)]
    pub picked: Picked,
}

/// Flags of `dlq show`.
#[derive(Debug, Args)]
pub struct DlqShowArgs {
    /// The id of the message
    pub id: String,
    /// Only this source
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Shows the payload too
    #[arg(long)]
    pub payload: bool,
}

/// Flags of `dlq retry` and `dlq discard`.
#[derive(Debug, Args)]
pub struct DlqActArgs {
    /// These letters; without ids all that match
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Which letters.
    #[command(flatten)]
    pub picked: Picked,
    /// No more than so many in a time, as in 50/s or 10/m
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub rate: Option<Pace>,
    /// Who does it.
    #[command(flatten)]
    pub by: By,
    /// Whether to ask.
    #[command(flatten)]
    pub consent: Consent,
}

/// Flags of `dlq export`.
#[derive(Debug, Args)]
pub struct DlqExportArgs {
    /// These letters; without ids all that match
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Which letters.
    #[command(flatten)]
    pub picked: Picked,
    /// Into this file, which must not be there yet; standard output by default
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
}

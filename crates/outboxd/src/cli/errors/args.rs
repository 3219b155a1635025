//! What can be typed after `errors`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use outbox::letters::Pace;

use crate::cli::args::{By, Consent};
use crate::ops::errors;
use crate::quantity::{parse_duration, parse_rate};

/// What to do with what is in an error table.
#[derive(Debug, Subcommand)]
pub enum ErrorsVerb {
    /// Lists errors
    List(ErrorsListArgs),
    /// Shows one with all that is known of it
    Show(ErrorsShowArgs),
    /// Sends them back to where they failed, to be handled again
    Retry(ErrorsRetryArgs),
    /// Changes the payload of one; the first one is kept
    Edit(ErrorsEditArgs),
    /// Closes them: nothing is left to do
    Resolve(ErrorsResolveArgs),
}

/// How an error stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Standing {
    /// Somebody should look at it.
    Open,
    /// Sent back to where it failed.
    Returned,
    /// Nothing is left to do.
    Resolved,
    /// However it stands.
    Any,
}

impl From<Standing> for errors::Standing {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Open => Self::Open,
            Standing::Returned => Self::Returned,
            Standing::Resolved => Self::Resolved,
            Standing::Any => Self::Any,
        }
    }
}

/// Which errors are meant.
#[derive(Debug, Clone, Args)]
pub struct Chosen {
    /// These errors, by their own id or by that of the message
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Only in the table of this sink
    #[arg(long, value_name = "NAME")]
    pub sink: Option<String>,
    /// How they stand
    #[arg(long, value_enum, default_value_t = Standing::Open)]
    pub state: Standing,
    /// Of this type; a trailing * matches any ending
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// Of this key
    #[arg(long)]
    pub key: Option<String>,
    /// With this cause, as in HTTP_500
    #[arg(long)]
    pub code: Option<String>,
    /// From this queue or topic
    #[arg(long, value_name = "NAME")]
    pub origin: Option<String>,
    /// Last failed longer ago than this, as in 2h
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub older_than: Option<Duration>,
    /// Last failed within this time, as in 30m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub newer_than: Option<Duration>,
    /// No more than so many of each table
    #[arg(long, default_value_t = 10_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub most: u32,
}

impl Chosen {
    /// What is asked for, besides the ids.
    pub fn request(&self) -> errors::Chosen {
        errors::Chosen {
            sink: self.sink.clone(),
            state: self.state.into(),
            kind: self.kind.clone(),
            key: self.key.clone(),
            code: self.code.clone(),
            origin: self.origin.clone(),
            older_than: self.older_than,
            newer_than: self.newer_than,
            most: NonZeroU32::new(self.most),
        }
    }
}

/// Flags of `errors list`.
#[derive(Debug, Args)]
pub struct ErrorsListArgs {
    /// Which errors.
    #[command(flatten)]
    pub chosen: Chosen,
}

/// Flags of `errors show`.
#[derive(Debug, Args)]
pub struct ErrorsShowArgs {
    /// Its own id, or that of the message
    pub id: String,
    /// Only in the table of this sink
    #[arg(long, value_name = "NAME")]
    pub sink: Option<String>,
    /// Shows the payload too, and the first one if it was changed
    #[arg(long)]
    pub payload: bool,
}

/// Flags of `errors retry`.
#[derive(Debug, Args)]
pub struct ErrorsRetryArgs {
    /// Which errors.
    #[command(flatten)]
    pub chosen: Chosen,
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

/// Flags of `errors edit`.
#[derive(Debug, Args)]
pub struct ErrorsEditArgs {
    /// Its own id, or that of the message
    pub id: String,
    /// Only in the table of this sink
    #[arg(long, value_name = "NAME")]
    pub sink: Option<String>,
    /// The new payload; without --payload and --file $EDITOR opens the old one
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    pub payload: Option<String>,
    /// A file with the new payload
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Who does it.
    #[command(flatten)]
    pub by: By,
    /// Whether to ask.
    #[command(flatten)]
    pub consent: Consent,
}

/// Flags of `errors resolve`.
#[derive(Debug, Args)]
pub struct ErrorsResolveArgs {
    /// Which errors.
    #[command(flatten)]
    pub chosen: Chosen,
    /// What was found or done
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Who does it.
    #[command(flatten)]
    pub by: By,
    /// Whether to ask.
    #[command(flatten)]
    pub consent: Consent,
}

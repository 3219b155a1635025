//! What can be typed after `audit`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::quantity::parse_duration;

/// What to do with the record of repairs.
#[derive(Debug, Subcommand)]
pub enum AuditVerb {
    /// Lists who did what, the newest first
    List(AuditListArgs),
}

/// Flags of `audit list`.
#[derive(Debug, Args)]
pub struct AuditListArgs {
    /// Done by this person
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// This action, as in dlq.retry
    #[arg(long)]
    pub action: Option<String>,
    /// To this message
    #[arg(long)]
    pub id: Option<String>,
    /// Longer ago than this, as in 2h
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub older_than: Option<Duration>,
    /// Within this time, as in 30m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub newer_than: Option<Duration>,
    /// At most so many
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// Before this number, to page on
    #[arg(long, value_name = "NUMBER")]
    pub before: Option<u64>,
}

//! Flags of `send`.

use std::path::PathBuf;

use clap::Args;

use super::parse_header;

/// Flags of `send`.
#[derive(Debug, Args)]
pub struct SendArgs {
    /// The source; may be left out if there is only one
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// The type, as in order.created
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: String,
    /// The key within which order is kept
    #[arg(long)]
    pub key: Option<String>,
    /// A header; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = parse_header)]
    pub headers: Vec<(String, String)>,
    /// The media type of the payload
    #[arg(long, default_value = "application/json")]
    pub content_type: String,
    /// The payload; without --data and --file it is read from standard input
    #[arg(long, conflicts_with = "file")]
    pub data: Option<String>,
    /// A file with the payload
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
}

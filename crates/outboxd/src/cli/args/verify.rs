//! Flags of `verify`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Flags of `verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// For so many minutes things are broken; then what is left is carried, and counted
    #[arg(long, value_name = "M", default_value = "3", value_parser = parse_minutes)]
    pub minutes: f64,
    /// Ends after so many kills instead
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "minutes")]
    pub kills: Option<u64>,
    /// Messages that are written per second, by all producers together
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: u32,
    /// Repeats the choices of another run
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Only these faults, with commas between them, or `none`; by default all that are possible here
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub faults: Vec<String>,
    /// A fault of your own, run by `sh -c`; may be repeated
    #[arg(long = "hook", value_name = "NAME=COMMAND", value_parser = parse_hook)]
    pub hooks: Vec<(String, String)>,
    /// Where to put a proxy before Kafka: the address that the broker announces
    #[arg(long, value_name = "IP:PORT")]
    pub kafka_proxy: Option<SocketAddr>,
    /// The folder to work in; by default a temporary one, which is kept if something is wrong
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Uses a database that is not empty: the outbox in it is removed, with all of its messages
    #[arg(long)]
    pub yes_destroy: bool,
}

fn parse_minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text.parse().map_err(|_| "this is no number".to_owned())?;
    let limits = 0.01..=10_000.0;
    if limits.contains(&minutes) { Ok(minutes) } else { Err("choose from 0.01 to 10000".to_owned()) }
}

fn parse_hook(text: &str) -> Result<(String, String), String> {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    match text.split_once('=') {
        Some((name, command)) if is_name(name) && !command.trim().is_empty() => {
            Ok((name.to_owned(), command.to_owned()))
        }
        _ => Err("a hook is written as NAME=COMMAND, with letters, digits, - and _ in the name".to_owned()),
    }
}

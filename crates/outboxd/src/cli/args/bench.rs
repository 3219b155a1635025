//! What can be typed to measure.

use std::net::SocketAddr;

use clap::{Args, ValueEnum};

/// Flags of `bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Only these, by commas; by default those that take minutes and not hours
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME")]
    pub scenario: Vec<Scenario>,
    /// How many messages a run carries
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub messages: u64,
    /// Messages a second of a steady load
    #[arg(long, default_value_t = 1_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rate: u64,
    /// How long what is measured by time goes on: steady, idle, blocked
    #[arg(long, default_value_t = 30, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Bytes of a payload
    #[arg(long, default_value_t = 300, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(32..=1_000_000))]
    pub size: u64,
    /// Over how many keys the messages are spread
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub keys: u64,
    /// How often the same is measured, in turns with its limits
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// How many messages wait in the scenario `backlog`
    #[arg(long, default_value_t = 10_000_000, value_name = "N")]
    pub backlog: u64,
    /// How many messages the log has held in the scenario `history`
    #[arg(long, default_value_t = 50_000_000, value_name = "N")]
    pub history: u64,
    /// Chooses the keys of the messages; random by default, and always told
    #[arg(long, value_name = "N")]
    pub seed: Option<u32>,
    /// A line for the pipe, as in 'batch = 1000'; may be repeated
    #[arg(long = "pipe", value_name = "TOML")]
    pub pipe: Vec<String>,
    /// A line for the source, as in 'notify = true'; may be repeated
    #[arg(long = "source", value_name = "TOML")]
    pub source: Vec<String>,
    /// Where to put a proxy before Kafka, so that it can be blocked: the address that the broker announces
    #[arg(long, value_name = "IP:PORT")]
    pub kafka_proxy: Option<SocketAddr>,
    /// Takes a database that is not empty: its outbox is destroyed
    #[arg(long)]
    pub yes_destroy: bool,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// A backlog is carried, as fast as it goes.
    Drain,
    /// A given rate, and how long a message takes.
    Steady,
    /// A handler with an inbox.
    Consumer,
    /// What an event adds to the application's transaction.
    Enqueue,
    /// A pipe with nothing to do.
    Idle,
    /// A table that was there before.
    Mapped,
    /// A few waiting against very many.
    Backlog,
    /// A log that has held very many.
    History,
    /// A sink that takes nothing for a while.
    Blocked,
}

impl Scenario {
    /// What is measured when nobody chooses.
    pub const USUAL: [Self; 6] =
        [Self::Drain, Self::Steady, Self::Consumer, Self::Enqueue, Self::Idle, Self::Mapped];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Steady => "steady",
            Self::Consumer => "consumer",
            Self::Enqueue => "enqueue",
            Self::Idle => "idle",
            Self::Mapped => "mapped",
            Self::Backlog => "backlog",
            Self::History => "history",
            Self::Blocked => "blocked",
        }
    }
}

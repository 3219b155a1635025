//! What can go wrong, by name; and how much of what was in flight it may repeat.

use std::fmt;
use std::time::Duration;

/// A way between the relays and a server, on which a proxy sits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Side {
    Database,
    Broker,
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// SIGKILL to a relay.
    Kill,
    /// SIGSTOP to a relay, and SIGCONT when its lease is long over.
    Stop,
    /// SIGTERM to a relay under load.
    Term,
    /// Connections are reset.
    Cut(Side),
    /// Connections are silent, and stay open.
    Freeze(Side),
    /// Connections are slow.
    Slow(Side),
    /// A connection is cut after so many bytes, which is in the midst of something.
    CutAfter(Side),
    /// The exchange leads nowhere.
    Unbind,
    /// The clock of one more relay is off by an hour.
    Clock,
    /// A transaction that stays open.
    Transaction,
    /// Ten relays at once.
    Relays,
    /// Nothing more can be written to the disk.
    Disk,
    /// A column of the log has another name.
    Column,
    /// What somebody else breaks: the number of the hook, and its name.
    Hook(usize, String),
}

impl Fault {
    /// All that do not come from hooks.
    pub(super) const KNOWN: [Self; 17] = [
        Self::Kill,
        Self::Stop,
        Self::Term,
        Self::Cut(Side::Database),
        Self::Freeze(Side::Database),
        Self::Slow(Side::Database),
        Self::CutAfter(Side::Database),
        Self::Cut(Side::Broker),
        Self::Freeze(Side::Broker),
        Self::Slow(Side::Broker),
        Self::CutAfter(Side::Broker),
        Self::Unbind,
        Self::Clock,
        Self::Transaction,
        Self::Relays,
        Self::Disk,
        Self::Column,
    ];

    /// How many windows of messages it may repeat, a window being what all relays together have in flight. `is_alone`
    /// tells whether nothing else goes wrong meanwhile.
    pub(super) fn windows(&self, is_alone: bool) -> u64 {
        match self {
            // It drains, unless something else keeps it from that.
            Self::Term => u64::from(!is_alone),
            Self::Kill
            | Self::Stop
            | Self::Cut(_)
            | Self::CutAfter(_)
            | Self::Transaction
            | Self::Relays
            | Self::Unbind => 1,
            // What times out is tried again into the same silence, and leases run out besides.
            Self::Freeze(_) | Self::Slow(_) | Self::Clock | Self::Disk | Self::Column => 2,
            // A server that goes and comes back is all of that.
            Self::Hook(..) => 3,
        }
    }

    /// How long it lasts at the least and at the most, where the lease is so long.
    pub(super) fn lasts(&self, lease: Duration) -> (Duration, Duration) {
        match self {
            Self::Kill | Self::Term | Self::Cut(_) | Self::Hook(..) => (Duration::ZERO, Duration::ZERO),
            Self::Stop => (lease.mul_f64(1.3), lease * 2),
            Self::Freeze(_) | Self::Slow(_) | Self::Clock | Self::Relays => (lease / 2, lease * 2),
            Self::Unbind | Self::CutAfter(_) | Self::Disk | Self::Column => (lease / 4, lease),
            Self::Transaction => (lease / 10, lease / 2),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Term => "term",
            Self::Cut(Side::Database) => "database-cut",
            Self::Freeze(Side::Database) => "database-freeze",
            Self::Slow(Side::Database) => "database-slow",
            Self::CutAfter(Side::Database) => "database-cut-after",
            Self::Cut(Side::Broker) => "broker-cut",
            Self::Freeze(Side::Broker) => "broker-freeze",
            Self::Slow(Side::Broker) => "broker-slow",
            Self::CutAfter(Side::Broker) => "broker-cut-after",
            Self::Unbind => "unbind",
            Self::Clock => "clock",
            Self::Transaction => "transaction",
            Self::Relays => "relays",
            Self::Disk => "disk",
            Self::Column => "column",
            Self::Hook(_, name) => name,
        };
        f.write_str(name)
    }
}

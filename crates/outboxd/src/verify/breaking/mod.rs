//! How things are broken: one small function for each fault.

mod network;
mod process;
mod state;

use std::sync::Arc;

use super::fault::Fault;
use super::log::Log;
use super::place::Network;
use super::producers::Producers;
use super::rabbitmq::RabbitMq;
use super::relays::Relays;
use super::schedule::Break;

/// Everything that can be broken.
pub(super) struct Scene {
    pub(super) relays: Relays,
    pub(super) network: Network,
    pub(super) log: Log,
    pub(super) producers: Arc<Producers>,
    pub(super) rabbitmq: Option<RabbitMq>,
    /// The clock that can be shifted, if it is installed.
    pub(super) clock: Option<String>,
    pub(super) hooks: Vec<(String, String)>,
    pub(super) folder: std::path::PathBuf,
}

impl Scene {
    /// Breaks one thing and mends it again; `is_alone` tells whether anything else is broken meanwhile.
    pub(super) async fn carry_out(&self, broken: &Break, is_alone: bool) -> anyhow::Result<()> {
        let Break { fault, lasts, choice } = broken;
        match fault {
            Fault::Kill => process::kill(self, *choice).await,
            Fault::Stop => process::stop(self, *choice, *lasts).await,
            Fault::Term => process::term(self, *choice, is_alone).await,
            Fault::Relays => process::many(self, *lasts).await,
            Fault::Clock => process::clock(self, *choice, *lasts).await,
            Fault::Cut(side) => network::cut(self, *side),
            Fault::Freeze(side) => network::freeze(self, *side, *lasts).await,
            Fault::Slow(side) => network::slow(self, *side, *choice, *lasts).await,
            Fault::CutAfter(side) => network::cut_after(self, *side, *choice, *lasts).await,
            Fault::Unbind => state::unbind(self, *lasts).await,
            Fault::Transaction => state::transaction(self, *lasts).await,
            Fault::Disk => state::disk(self, *lasts).await,
            Fault::Column => state::column(self, *lasts).await,
            Fault::Hook(number, _) => process::hook(self, *number).await,
        }
    }
}

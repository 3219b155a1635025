//! `dlq`: what is dead at any source, whether a queue keeps it, a topic, a log or a mapped table.

pub mod args;

mod act;
mod dead;
mod export;
mod list;
mod place;
mod show;

use outbox::letters::Act;

use self::args::DlqVerb;
use super::output::Output;
use crate::plan::Plan;
use crate::trouble::Exit;

pub use dead::{Dead, Wanted};
pub use place::{Place, Seen, look, places};

/// Does what was typed after `dlq`.
pub async fn dlq(verb: &DlqVerb, plan: &Plan, output: &mut Output) -> anyhow::Result<Exit> {
    match verb {
        DlqVerb::List(args) => list::list(args, plan, output).await,
        DlqVerb::Show(args) => show::show(args, plan, output).await,
        DlqVerb::Retry(args) => act::act(args, Act::Return, plan, output).await,
        DlqVerb::Discard(args) => act::act(args, Act::Discard, plan, output).await,
        DlqVerb::Export(args) => export::export(args, plan, output).await,
    }
}

//! `dlq`: what is dead at any source, whether a queue keeps it, a topic, a log or a mapped table.

pub mod args;

mod act;
mod export;
mod list;
mod show;

use self::args::DlqVerb;
use super::output::Output;
use crate::ops::Office;
use crate::ops::dead::Act;
use crate::trouble::Exit;

/// Does what was typed after `dlq`.
pub async fn dlq(verb: &DlqVerb, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    match verb {
        DlqVerb::List(args) => list::list(args, office, output).await,
        DlqVerb::Show(args) => show::show(args, office, output).await,
        DlqVerb::Retry(args) => act::act(args, Act::Return, office, output).await,
        DlqVerb::Discard(args) => act::act(args, Act::Discard, office, output).await,
        DlqVerb::Export(args) => export::export(args, office, output).await,
    }
}

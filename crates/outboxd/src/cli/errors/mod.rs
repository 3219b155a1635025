//! `errors`: what is in the error tables, and what a person does about it.

pub mod args;

mod desk;
mod edit;
mod list;
mod resolve;
mod retry;
mod show;

use self::args::ErrorsVerb;
use super::output::Output;
use crate::plan::Plan;
use crate::trouble::Exit;

pub use desk::desks;
pub use list::to_json as error_json;
pub use show::standing;

/// Does what was typed after `errors`.
pub async fn errors(verb: &ErrorsVerb, plan: &Plan, output: &mut Output) -> anyhow::Result<Exit> {
    match verb {
        ErrorsVerb::List(args) => list::list(args, plan, output).await,
        ErrorsVerb::Show(args) => show::show(args, plan, output).await,
        ErrorsVerb::Retry(args) => retry::retry(args, plan, output).await,
        ErrorsVerb::Edit(args) => edit::edit(args, plan, output).await,
        ErrorsVerb::Resolve(args) => resolve::resolve(args, plan, output).await,
    }
}

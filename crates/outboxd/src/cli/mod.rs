//! The verbs, one file each or a few that belong together.

pub mod args;
pub mod output;

mod activity;
pub mod audit;
mod consent;
pub mod dlq;
mod doctor;
pub mod errors;
mod init;
mod init_from;
mod list;
mod migrate;
mod password;
mod pause;
mod person;
pub mod progress;
mod purge;
mod repair;
mod replay;
mod send;
mod show;
mod show_config;
mod status;
mod validate;

#[cfg(test)]
mod reference;

pub use audit::list as audit_list;
pub use dlq::dlq;
pub use doctor::doctor;
pub use errors::errors;
pub use init::init;
pub use list::list;
pub use migrate::migrate;
pub use password::password;
pub use pause::{pause, resume};
pub use purge::purge;
pub use repair::repair;
pub use replay::replay;
pub use send::send;
pub use show::show;
pub use show_config::show_config;
pub use status::status;
pub use validate::validate;

use std::path::Path;

use crate::plan::{Checked, Plan};
use crate::trouble::{Exit, Trouble};

/// Reads and checks the configuration.
pub fn load(file: &Path) -> anyhow::Result<Plan> {
    Ok(check(file)?.plan)
}

/// The same, with what should be looked at.
pub fn check(file: &Path) -> anyhow::Result<Checked> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        let help = "write one with `outboxd init`, or name it with --config PATH";
        Trouble::new(
            Exit::Config,
            format!("cannot read the configuration ({}): {error}", file.display()),
            help,
        )
    })?;
    Ok(Plan::parse(file, &text, &|name| std::env::var(name).ok())?)
}

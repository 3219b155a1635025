//! The verbs, one file each or a few that belong together.

pub mod args;
pub mod output;

mod init;
mod show_config;
mod validate;

pub use init::init;
pub use show_config::show_config;
pub use validate::validate;

use std::path::Path;

use crate::plan::Plan;
use crate::trouble::{Exit, Trouble};

/// Reads and checks the configuration.
pub fn load(file: &Path) -> anyhow::Result<Plan> {
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

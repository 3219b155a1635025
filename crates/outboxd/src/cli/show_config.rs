//! `config show`: what really holds.

use anyhow::Context;

use super::output::Output;
use crate::ops::Office;
use crate::show::to_toml;
use crate::trouble::Exit;

/// Prints the effective plan.
pub fn show_config(office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let shown = office.config();
    if output.is_json() {
        output.json(&shown)?;
    } else {
        let text = to_toml(&shown).context("the plan cannot be written as TOML")?;
        output.raw(text.as_bytes())?;
    }
    Ok(Exit::Ok)
}

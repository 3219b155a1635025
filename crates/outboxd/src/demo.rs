//! `demo`: what a newcomer meets.

use std::process::ExitCode;

use crate::cli::args::DemoArgs;

/// Runs the demonstration.
pub async fn run(_args: DemoArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("the demonstration is not built in")
}

//! `outboxd`: carries events from a database transaction to whoever must hear of them.
//!
//! This file is one match over the verbs. [`config`] and [`plan`] turn a file into a checked plan,
//! [`backends`] turns the plan into sources and sinks of the library, [`cli`] holds the verbs.

mod backends;
mod cli;
mod config;
mod connection;
mod environment;
mod mistake;
mod options;
mod plan;
mod quantity;
mod reader;
mod secret;
mod show;
mod trouble;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use cli::args::{Cli, ConfigVerb, Verb};
use cli::output::Output;
use trouble::{Exit, report};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut output = Output::new(&cli.global);
    let ended = run_verb(cli, &mut output).and_then(|exit| Ok(output.flush().map(|()| exit)?));
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            // Data that was written before the failure is still data.
            let _ = output.flush();
            report(&error, &output).into()
        }
    }
}

fn run_verb(cli: Cli, output: &mut Output) -> anyhow::Result<Exit> {
    let file = &cli.global.config;
    match cli.verb {
        Verb::Init(args) => cli::init(&args, file, output),
        Verb::Validate => cli::validate(file, output),
        Verb::Config { verb: ConfigVerb::Show } => cli::show_config(&cli::load(file)?, output),
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "outboxd", &mut script);
            output.raw(&script)?;
            Ok(Exit::Ok)
        }
        _ => Ok(Exit::Failed),
    }
}

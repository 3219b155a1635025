//! `outboxd`: carries events from a database transaction to whoever must hear of them.
//!
//! This file is one match over the verbs. `config` and `plan` turn a file into a checked plan, `backends` turns the
//! plan into sources and sinks of the library, `cli` holds the verbs. It is a library only so that what reads foreign
//! bytes can be fuzzed; whoever wants to build on something builds on the crate `outbox`.
#![allow(unreachable_pub, reason = "a program exports nothing: `pub` is for its other modules")]

mod alerts;
mod backends;
mod bench;
mod cli;
mod config;
mod connection;
mod demo;
mod doctor;
mod emptiness;
mod environment;
mod health;
mod http;
mod logging;
mod mistake;
mod once;
mod ops;
mod options;
mod password;
mod pauses;
mod plan;
mod publishers;
mod quantity;
#[cfg(feature = "kafka")]
mod raw_kafka;
mod reader;
mod run;
mod secret;
mod show;
mod top;
mod traces;
mod trouble;
mod verify;
mod watch;

#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz;

use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};
use outbox::admin::Repair;

use cli::args::{Cli, ConfigVerb, Verb};
use cli::audit::args::AuditVerb;
use cli::output::Output;
use ops::Office;
use options::{LogFormat, LogOptions};
use plan::Checked;
use trouble::{Exit, report};

/// The program.
pub fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let verb = matches.subcommand().map_or(&matches, |(_, verb)| verb);
    cli.global.names_config =
        [&matches, verb].iter().any(|at| at.value_source("config") == Some(ValueSource::CommandLine));
    let mut output = Output::new(&cli.global);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&error.into(), &output).into(),
    };
    let ended =
        runtime.block_on(run_verb(cli, &mut output)).and_then(|exit| Ok(output.flush().map(|()| exit)?));
    logging::finish();
    // Something that hangs in a blocking call must not keep the program from ending.
    runtime.shutdown_background();
    ended.unwrap_or_else(|error| {
        // Data that was written before the failure is still data.
        let _ = output.flush();
        report(&error, &output).into()
    })
}

async fn run_verb(cli: Cli, output: &mut Output) -> anyhow::Result<ExitCode> {
    let (global, file) = (&cli.global, cli.global.config.as_path());
    let check = || -> anyhow::Result<Checked> {
        let checked = cli::check(file)?;
        logging::start(logging::for_verbs(checked.plan.log.format), global);
        Ok(checked)
    };
    let load = || check().map(|checked| checked.plan);
    let office = || load().map(Office::for_call);
    let exit = match cli.verb {
        Verb::Init(args) => cli::init(&args, file, output).await?,
        Verb::Validate => cli::validate(file, output)?,
        Verb::Doctor(args) => {
            let Checked { plan, warnings } = check()?;
            cli::doctor(&args, &Office::for_call(plan).warned(warnings), output).await?
        }
        Verb::Config { verb: ConfigVerb::Show } => cli::show_config(&office()?, output)?,
        Verb::Password => cli::password(output)?,
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "outboxd", &mut script);
            output.raw(&script)?;
            Exit::Ok
        }
        Verb::Migrate(args) => cli::migrate(&args, file, output).await?,
        Verb::Run(args) => {
            let Checked { plan, warnings } = cli::check(file)?;
            logging::start(plan.log, global);
            for warning in &warnings {
                tracing::warn!("{warning}; {}", warning.help);
            }
            run::run(&plan, warnings, &args).await?
        }
        Verb::Demo(mut args) => {
            // It tells by itself what happens, so only what it does not expect is logged.
            logging::start(LogOptions { level: 0, format: LogFormat::Text }, global);
            args.format = global.format;
            return demo::run(args).await;
        }
        Verb::Bench(args) => {
            logging::start(LogOptions { level: 0, format: LogFormat::Text }, global);
            bench::bench(&args, global.names_config.then_some(file), output).await?
        }
        Verb::Verify(args) => {
            // What happens to the relays is in their own logs.
            logging::start(LogOptions { level: 0, format: LogFormat::Text }, global);
            verify::verify(&args, global.names_config.then_some(file), output).await?
        }
        Verb::Status(args) => cli::status(&args, &office()?, output).await?,
        // A log line would write over the screen.
        Verb::Top(args) => top::top(&args, &Office::for_call(cli::load(file)?), output).await?,
        Verb::List(args) => cli::list(&args, &office()?, output).await?,
        Verb::Show(args) => cli::show(&args, &office()?, output).await?,
        Verb::Retry(args) => cli::repair(&args, Repair::Retry, &office()?, output).await?,
        Verb::Skip(args) => cli::repair(&args, Repair::Skip, &office()?, output).await?,
        Verb::Replay(args) => cli::replay(&args, &office()?, output).await?,
        Verb::Purge(args) => cli::purge(&args, &office()?, output).await?,
        Verb::Pause(args) => cli::pause(&args, &office()?, output).await?,
        Verb::Resume(args) => cli::resume(&args, &office()?, output).await?,
        Verb::Dlq { verb } => cli::dlq(&verb, &office()?, output).await?,
        Verb::Errors { verb } => cli::errors(&verb, &office()?, output).await?,
        Verb::Audit { verb: AuditVerb::List(args) } => cli::audit_list(&args, &office()?, output).await?,
        Verb::Send(args) => cli::send(&args, &office()?, output).await?,
    };
    Ok(exit.into())
}

//! The log of the program, on standard error.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::cli::args::Global;
use crate::cli::output::use_color;
use crate::options::{LEVELS, LogFormat, LogOptions};

/// Starts the log; the flags go before the configuration.
pub fn start(options: LogOptions, global: &Global) {
    let level = (options.level + usize::from(global.verbose)).saturating_sub(usize::from(global.quiet));
    let (level, _) = LEVELS[level.min(LEVELS.len() - 1)];
    // What drivers say below a warning is for those who write drivers.
    let others = if level == "error" { "error" } else { "warn" };
    // The AMQP driver logs every returned message with its payload, which is nobody's business here; what
    // became of it is told by the sink.
    // That of traces logs every failed request; ours are told once, when it begins and when it ends.
    let quiet = "lapin=off,opentelemetry=off";
    let filter = EnvFilter::new(format!("{others},{quiet},outbox={level},outboxd={level}"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false);
    // A second start cannot happen outside of tests, and would change nothing.
    let _ = match options.format {
        LogFormat::Text => lines.with_ansi(use_color(global.color)).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}

/// What verbs other than `run` log, unless asked for more: a warning belongs on the screen, progress does not.
pub fn for_verbs(format: LogFormat) -> LogOptions {
    LogOptions { format, level: 1 }
}

//! The log of the program, on standard error.

mod layer;
mod panics;
mod sums;

use std::io::{self, IsTerminal as _};

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

use crate::cli::args::Global;
use crate::cli::output::use_color;
use crate::options::{LEVELS, LogFormat, LogOptions};
use layer::Repeated;
pub use layer::finish;

/// Starts the log; the flags go before the configuration. What repeats is summed up, so at the end call [`finish`].
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
    // Who does not read the log any more must not end what writes it.
    let lines = fmt::layer().with_writer(io::stderr).with_target(false).log_internal_errors(false);
    let lines = if is_json(global.log_format.unwrap_or(options.format), io::stderr().is_terminal()) {
        lines.json().flatten_event(true).boxed()
    } else {
        lines.with_ansi(use_color(global.color)).boxed()
    };
    // A second start cannot happen outside of tests, and would change nothing.
    let log = tracing_subscriber::registry().with(filter).with(Repeated::new()).with(lines);
    if log.try_init().is_ok() {
        panics::log_them();
    }
}

/// A person who looks on reads text; whoever collects lines wants to take them apart.
fn is_json(format: LogFormat, is_terminal: bool) -> bool {
    match format {
        LogFormat::Auto => !is_terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    }
}

/// What verbs other than `run` log, unless asked for more: a warning belongs on the screen, progress does not. The rest of
/// what they say there is text, so their log is too unless JSON was chosen.
pub fn for_verbs(format: LogFormat) -> LogOptions {
    let format = if format == LogFormat::Auto { LogFormat::Text } else { format };
    LogOptions { format, level: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a8_a_terminal_gets_text_and_everybody_else_json_unless_it_was_chosen() {
        assert!(!is_json(LogFormat::Auto, true) && is_json(LogFormat::Auto, false));
        assert!(!is_json(LogFormat::Text, false) && is_json(LogFormat::Json, true));
        assert_eq!(for_verbs(LogFormat::Auto).format, LogFormat::Text);
        assert_eq!(for_verbs(LogFormat::Json).format, LogFormat::Json);
    }
}

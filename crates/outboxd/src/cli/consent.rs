//! Before something changes: what it would change, and whether that is meant.

use std::io::BufRead;

use super::args::Consent;
use super::output::Output;
use crate::trouble::Trouble;

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Do it.
    Yes,
    /// Only looked, or nothing to do, or the person said no.
    No,
}

/// Tells what is about to happen, and asks if somebody can answer. `deed` is as in "retry 3 messages".
pub fn ask(deed: &str, count: u64, consent: Consent, output: &Output) -> Result<Answer, Trouble> {
    if count == 0 {
        output.note(format_args!("nothing to do: would {deed}"));
        return Ok(Answer::No);
    }
    if consent.dry_run {
        output.note(format_args!("would {deed}; nothing was changed"));
        return Ok(Answer::No);
    }
    if consent.yes {
        return Ok(Answer::Yes);
    }
    if !output.is_interactive() {
        let help = "repeat it with --yes, or look first with --dry-run";
        return Err(Trouble::usage(format!("would {deed}, and nobody is there to confirm it"), help));
    }
    output.prompt(format_args!("This will {deed}. Go on? [y/N] "));
    let mut line = String::new();
    // No answer is an answer: no.
    let _ = std::io::stdin().lock().read_line(&mut line);
    if matches!(line.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(Answer::Yes);
    }
    output.note("nothing was changed");
    Ok(Answer::No)
}

/// A number of messages, in words.
pub fn messages(count: u64) -> String {
    format!("{count} message{}", if count == 1 { "" } else { "s" })
}

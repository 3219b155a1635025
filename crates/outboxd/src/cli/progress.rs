//! How far long work has come, told on standard error where that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar for so many.
pub fn bar(total: u64) -> ProgressBar {
    styled(Some(total), "{bar:30} {pos} of {len}, {per_sec}")
}

/// A counter of what was done, where nobody knows how much there is.
pub fn counter(done: &str) -> ProgressBar {
    styled(None, &format!("{{spinner}} {{pos}} {done}, {{per_sec}}"))
}

/// Words of one's own, where nothing can be counted.
pub fn words() -> ProgressBar {
    styled(None, "{spinner} {elapsed}: {msg}")
}

/// So many steps of work, each with its name.
pub fn steps(total: u64) -> ProgressBar {
    styled(Some(total), "{bar:30} {pos} of {len}, {elapsed}: {msg}")
}

fn styled(total: Option<u64>, template: &str) -> ProgressBar {
    // The target is silent where standard error is no terminal.
    let progress = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        progress.set_style(style);
    }
    progress
}

//! A panic is a line of the log, and not text between its lines.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

use crate::secret::mask;

/// From now on panics are told in the log, which must have been started.
pub(super) fn log_them() {
    std::panic::set_hook(Box::new(tell));
}

fn tell(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(|place| format!("{}:{}", place.file(), place.line()));
    let place = place.as_deref().unwrap_or("an unknown place");
    let current = std::thread::current();
    let thread = current.name().unwrap_or("unnamed");
    let message = message(panic.payload());
    // Asked for by RUST_BACKTRACE.
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(thread, backtrace, "a bug: panicked at {place}: {message}");
}

/// In one line, and without what may be a password: whoever wrote it did not think of a log.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    mask(text.unwrap_or("it has no words")).replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(payload: impl Any + Send) -> String {
        message(&payload)
    }

    #[test]
    fn e7_what_a_panic_says_is_one_line_without_a_password() {
        assert_eq!(told("no such thing"), "no such thing");
        assert_eq!(told("two\nlines".to_owned()), "two lines");
        assert_eq!(told(5), "it has no words");
        let url = "amqp://app:hunter2@rabbit/x".to_owned();
        assert!(!told(url).contains("hunter2"));
    }
}

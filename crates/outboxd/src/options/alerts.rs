//! What may be, before somebody is told.

use std::time::Duration;

/// How often one looks whether an alert fires.
pub const ALERTS_EVERY: Duration = Duration::from_secs(10);

/// The thresholds of alerts; the defaults are those of `deploy/prometheus/alerts.yml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertLimits {
    /// Dead letters in a queue or topic that are no single bad message any more.
    pub dead_letters: u32,
    /// Errors in an error table that nobody has resolved.
    pub errors: u32,
    /// Messages of a pipe that are not delivered.
    pub pending: u32,
    /// The age of the oldest of them.
    pub oldest: Duration,
    /// From commit to confirmation, for 95 of 100.
    pub dispatch: Duration,
    /// How long a sink takes for a message, for 95 of 100.
    pub processing: Duration,
    /// Attempts that fail, of 100.
    pub error_percent: u32,
}

impl Default for AlertLimits {
    fn default() -> Self {
        Self {
            dead_letters: 10,
            errors: 10,
            pending: 100,
            oldest: Duration::from_secs(300),
            dispatch: Duration::from_secs(2),
            processing: Duration::from_secs(30),
            error_percent: 20,
        }
    }
}

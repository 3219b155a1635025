//! What is written on a message when a consumer moves it: attempts, cause, time and origin, as headers.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::message::{Headers, header};
use crate::sink::{Cause, code};

/// A sentence that travels in a header is no longer than this: headers must fit in a frame.
const LONGEST_TEXT: usize = 1_000;

/// The headers of a retry, which belong to the queue that wrote them.
pub(crate) const RETRY: [&str; 7] = [
    header::RETRY_ORIGIN,
    header::RETRY_ATTEMPTS,
    header::RETRY_CODE,
    header::RETRY_ERROR,
    header::RETRY_FIRST_AT,
    header::RETRY_AT,
    header::RETRY_DUE,
];

/// What was written on a message the last time that its own queue moved it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tracks {
    /// Attempts spent.
    pub(crate) attempts: u32,
    /// When it first failed.
    pub(crate) first_at: Option<Timestamp>,
    /// When it is due.
    pub(crate) due: Option<Timestamp>,
    /// Why it last failed.
    pub(crate) cause: Option<Cause>,
    /// When it last failed.
    pub(crate) at: Option<Timestamp>,
}

impl Tracks {
    /// Takes the tracks that `place` itself left out of the headers. What another queue left says nothing here, and
    /// goes too: an attempt there is none here.
    pub(crate) fn take(headers: &mut Headers, place: &str) -> Result<Self, Cause> {
        let [origin, attempts, error_code, error, first_at, at, due] = RETRY.map(|name| headers.remove(name));
        if origin.is_none_or(|origin| origin != place) {
            return Ok(Self::default());
        }
        Ok(Self {
            attempts: read(header::RETRY_ATTEMPTS, attempts)?.unwrap_or(0),
            first_at: read(header::RETRY_FIRST_AT, first_at)?,
            due: read(header::RETRY_DUE, due)?,
            cause: error_code.map(|code| Cause::new(code, error.unwrap_or_default())),
            at: read(header::RETRY_AT, at)?,
        })
    }

    /// One more attempt is spent; `wait` from now on it is due again.
    pub(crate) fn retried(&self, attempts: u32, cause: &Cause, now: Timestamp, wait: Duration) -> Self {
        Self {
            attempts,
            first_at: Some(self.first_at.unwrap_or(now)),
            due: later(now, wait),
            cause: Some(cause.clone()),
            at: Some(now),
        }
    }

    /// It waits for another one, or waits on; nothing is spent.
    pub(crate) fn waiting(&self, now: Timestamp, wait: Duration) -> Self {
        Self { due: later(now, wait), ..self.clone() }
    }

    /// How long it still has to wait.
    pub(crate) fn left(&self, now: Timestamp) -> Duration {
        let left = self.due.map(|due| due.duration_since(now)).unwrap_or_default();
        Duration::try_from(left).unwrap_or_default()
    }

    /// The headers for a retry queue of `place`.
    pub(crate) fn headers(&self, place: &str) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            (header::RETRY_ORIGIN, place.to_owned()),
            (header::RETRY_ATTEMPTS, self.attempts.to_string()),
        ];
        headers.extend(self.cause.iter().flat_map(|cause| {
            [(header::RETRY_CODE, cause.code.to_string()), (header::RETRY_ERROR, shortened(&cause.detail))]
        }));
        let times = [
            (header::RETRY_FIRST_AT, self.first_at),
            (header::RETRY_AT, self.at),
            (header::RETRY_DUE, self.due),
        ];
        headers.extend(times.into_iter().filter_map(|(name, time)| Some((name, time?.to_string()))));
        headers
    }

    /// The headers for the dead letters of `place`.
    pub(crate) fn dead(
        &self,
        place: &str,
        attempts: u32,
        cause: &Cause,
        now: Timestamp,
    ) -> Vec<(&'static str, String)> {
        vec![
            (header::ERROR_ORIGIN, place.to_owned()),
            (header::ERROR_ATTEMPTS, attempts.to_string()),
            (header::ERROR_CODE, cause.code.to_string()),
            (header::ERROR_TEXT, shortened(&cause.detail)),
            (header::ERROR_FIRST_AT, self.first_at.unwrap_or(now).to_string()),
            (header::ERROR_AT, now.to_string()),
        ]
    }
}

fn later(now: Timestamp, wait: Duration) -> Option<Timestamp> {
    now.checked_add(SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX)).ok()
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}

fn read<T: std::str::FromStr>(name: &str, text: Option<String>) -> Result<Option<T>, Cause> {
    let Some(text) = text else { return Ok(None) };
    let wrong = || Cause::new(code::BAD_HEADER, format!("the header '{name}' cannot be read"));
    text.parse().map(Some).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: Vec<(&'static str, String)>) -> Headers {
        list.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    #[test]
    fn what_was_written_is_read_by_its_own_queue_only() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let cause = Cause::new(code::HANDLER, "told to fail");
        let tracks = Tracks::default().retried(2, &cause, now, Duration::from_secs(60));
        let written = headers(tracks.headers("q"));
        assert_eq!(written[header::RETRY_DUE], "2026-01-02T03:05:05Z");
        let mut own = written.clone();
        assert_eq!(Tracks::take(&mut own, "q").unwrap(), tracks);
        assert!(own.is_empty(), "they are not the message's own");
        let mut foreign = written.clone();
        assert_eq!(Tracks::take(&mut foreign, "q_error").unwrap(), Tracks::default());
        assert!(foreign.is_empty());
        assert_eq!(tracks.left(now), Duration::from_secs(60));
        assert_eq!(tracks.left(tracks.due.unwrap() + SignedDuration::from_secs(1)), Duration::ZERO);
        let later = now + SignedDuration::from_secs(61);
        let again = tracks.retried(3, &cause, later, Duration::from_secs(1));
        assert_eq!((again.first_at, again.at), (Some(now), Some(later)));
        let waits = again.waiting(later, Duration::from_secs(5));
        assert_eq!((waits.attempts, waits.at), (3, Some(later)), "nothing is spent");
    }

    #[test]
    fn a_header_that_cannot_be_read_is_told() {
        for (name, value) in [(header::RETRY_ATTEMPTS, "many"), (header::RETRY_DUE, "soon")] {
            let mut bad = headers(vec![(header::RETRY_ORIGIN, "q".into()), (name, value.into())]);
            let cause = Tracks::take(&mut bad, "q").unwrap_err();
            assert!(cause.code == code::BAD_HEADER && cause.detail.contains(name), "{cause}");
        }
    }

    #[test]
    fn a_dead_letter_tells_its_story() {
        let now = Timestamp::now();
        let cause = Cause::new("X", "y".repeat(1_500));
        let dead = headers(Tracks::default().dead("q", 3, &cause, now));
        assert_eq!((&*dead[header::ERROR_ORIGIN], &*dead[header::ERROR_ATTEMPTS]), ("q", "3"));
        assert_eq!(dead[header::ERROR_TEXT].len(), LONGEST_TEXT);
        assert_eq!(dead[header::ERROR_FIRST_AT], now.to_string());
    }
}

//! What an answer of an endpoint means for a message. Pure.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use url::Url;

use crate::sink::{Cause, Outcome, Rejection};

/// An endpoint may ask for no longer pause than this: a message must not be put off for years by a mistake.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// So many characters of an answer are told.
const TOLD: usize = 200;

/// What is looked at in an answer.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// The headers `Retry-After` and `Location`.
    pub(super) retry_after: Option<String>,
    pub(super) location: Option<String>,
    /// As much of the body as was read.
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// What became of the message; `place` is what causes call the endpoint.
    pub(super) fn outcome(&self, url: &Url, place: &str, now: Timestamp) -> Outcome {
        let cause = |why: String| {
            let told = format!("{place} answered {}{why}", self.status);
            Cause::new(format!("HTTP_{}", self.status), told)
        };
        match self.status {
            200..=299 => Outcome::Delivered,
            300..=399 => Outcome::refused(cause(self.redirect(url))),
            408 | 425 | 429 => self.again(cause(self.told()), now),
            400..=499 => Outcome::refused(cause(self.told())),
            _ => self.again(cause(self.told()), now),
        }
    }

    fn again(&self, cause: Cause, now: Timestamp) -> Outcome {
        let retry_after = self.retry_after.as_deref().and_then(|text| pause(text, now));
        Outcome::Rejected(Rejection { cause, permanent: false, retry_after, defect: false })
    }

    /// Where it wanted to lead: the host alone, for the rest may hold secrets.
    fn redirect(&self, url: &Url) -> String {
        let to = self.location.as_deref().and_then(|location| url.join(location).ok());
        let to = to.as_ref().and_then(Url::host_str).map(|host| format!(" (to {host})")).unwrap_or_default();
        format!(", a redirect{to}; redirects are not followed: configure the address where it ends")
    }

    /// The first line of the body.
    fn told(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let line: String = line.chars().take(TOLD).collect();
        if line.is_empty() { line } else { format!(": {line}") }
    }
}

/// How long `Retry-After` asks to wait: seconds, or a date. Nothing if it asks for no pause or cannot be read.
fn pause(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    let pause = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are longer than the longest.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let due = DateTimeParser::new().relaxed_weekday(true).parse_timestamp(text).ok()?;
        Duration::try_from(due.duration_since(now)).ok()?
    };
    (!pause.is_zero()).then_some(pause.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(answer: &Answer) -> Outcome {
        let url = Url::parse("https://shop.example/hooks").unwrap();
        answer.outcome(&url, "https://shop.example", "1994-11-06T08:49:00Z".parse().unwrap())
    }

    fn status(status: u16) -> Answer {
        Answer { status, ..Answer::default() }
    }

    fn rejection(answer: &Answer) -> Rejection {
        match judged(answer) {
            Outcome::Rejected(rejection) => rejection,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn d9_the_status_decides() {
        for code in [200, 201, 202, 204, 299] {
            assert_eq!(judged(&status(code)), Outcome::Delivered);
        }
        for (code, permanent) in [
            (408, false),
            (425, false),
            (429, false),
            (500, false),
            (502, false),
            (503, false),
            (599, false),
            (199, false),
            (600, false),
            (301, true),
            (302, true),
            (304, true),
            (308, true),
            (400, true),
            (401, true),
            (403, true),
            (404, true),
            (409, true),
            (410, true),
            (413, true),
            (422, true),
        ] {
            let rejection = rejection(&status(code));
            assert_eq!((rejection.permanent, &*rejection.cause.code), (permanent, &*format!("HTTP_{code}")));
        }
    }

    #[test]
    fn d9_retry_after_is_honoured_within_bounds() {
        let asked =
            |text: &str| rejection(&Answer { retry_after: Some(text.into()), ..status(503) }).retry_after;
        assert_eq!(asked(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(37)));
        assert_eq!(asked("99999999999999999999999"), Some(LONGEST));
        assert_eq!(asked("Sun, 06 Nov 2094 08:49:37 GMT"), Some(LONGEST));
        for nothing in ["0", "Sun, 06 Nov 1994 08:48:37 GMT", "soon", "", "-3", "1.5"] {
            assert_eq!(asked(nothing), None, "{nothing}");
        }
        let refused = Answer { retry_after: Some("7".into()), ..status(404) };
        assert_eq!(rejection(&refused).retry_after, None);
    }

    #[test]
    fn d9_a_redirect_is_told_by_its_host_alone() {
        let told = |location: &str| {
            rejection(&Answer { location: Some(location.into()), ..status(302) }).cause.detail
        };
        assert!(
            told("https://u:canary@other.example/canary?t=canary").contains("(to other.example); redirects")
        );
        assert!(!told("https://u:canary@other.example/canary?t=canary").contains("canary"));
        assert!(told("/elsewhere").contains("(to shop.example)"));
        assert!(told("http://[").contains("a redirect; redirects are not followed"));
    }

    #[test]
    fn of_a_body_the_first_line_is_told_without_control_characters() {
        let told = |body: &[u8]| rejection(&Answer { body: body.into(), ..status(500) }).cause.detail;
        assert_eq!(told(b"\n  no\tstock\x07 \r\nsecond"), "https://shop.example answered 500: no stock");
        assert_eq!(told(b""), "https://shop.example answered 500");
        assert_eq!(told(b"\xff\xfe").chars().last(), Some('\u{fffd}'));
        assert_eq!(told("ü".repeat(900).as_bytes()).matches('ü').count(), 200);
    }
}

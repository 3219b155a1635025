//! Numbers and times as a page shows them. Pure.

use std::fmt;

use askama::filters::HtmlSafe;
use jiff::Timestamp;
use outbox::admin::COUNTED_AT_MOST;

use crate::quantity::show_age;

/// A number in groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number that was counted only so far: beyond that nobody knows.
pub fn counted(number: u64) -> String {
    if number >= COUNTED_AT_MOST { format!("≥ {}", grouped(COUNTED_AT_MOST)) } else { grouped(number) }
}

/// How long something takes or is ago, for a table.
pub fn age(seconds: &f64) -> String {
    show_age(*seconds)
}

/// A time for people: to the second, in UTC. Its attribute has all of it, and a script makes it relative.
#[derive(Debug, Clone, Copy)]
pub struct Moment(Timestamp);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.strftime("%Y-%m-%d %H:%M:%S");
        write!(f, "<time datetime=\"{}\" title=\"{} UTC\">{text}</time>", self.0, text)
    }
}

/// It has digits, and signs between them.
impl HtmlSafe for Moment {}

/// A time.
pub fn when(time: &Timestamp) -> Moment {
    Moment(*time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_groups() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn what_was_not_counted_to_the_end_says_so() {
        assert_eq!((counted(9_999).as_str(), counted(10_000).as_str()), ("9,999", "≥ 10,000"));
    }

    #[test]
    fn a_time_is_told_to_the_second() {
        let shown = when(&Timestamp::UNIX_EPOCH).to_string();
        assert!(shown.starts_with("<time datetime=\"1970-01-01T00:00:00Z\""), "{shown}");
        assert!(shown.ends_with(">1970-01-01 00:00:00</time>"), "{shown}");
    }
}

//! What repeats is counted instead of written. Pure: time comes in from outside.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What repeats is summed up so often.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// So many kinds of lines are told apart; further ones are counted together.
const KINDS: usize = 500;

/// Lines of one key say the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) is_error: bool,
    /// Where in the program it comes from.
    pub(super) from: &'static str,
    /// The line without what differs each time: numbers and ids.
    pub(super) gist: String,
}

/// What a sum says besides the number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct About {
    pub(super) message: String,
    pub(super) pipe: Option<String>,
    pub(super) source: Option<String>,
    pub(super) cause: Option<String>,
}

/// Lines that were not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) is_error: bool,
    pub(super) more: u64,
    pub(super) within: Duration,
    pub(super) about: About,
}

#[derive(Debug, Default)]
pub(super) struct Sums(HashMap<Key, Count>);

#[derive(Debug)]
struct Count {
    since: Instant,
    more: u64,
    /// Of the newest line.
    about: About,
}

impl Sums {
    /// Whether a line is written: the first of its kind is, and then one after an interval in which there was none.
    pub(super) fn is_written(&mut self, key: Key, about: About, now: Instant) -> bool {
        let is_full = self.0.len() >= KINDS && !self.0.contains_key(&key);
        let (key, about) = if is_full { (other(key.is_error), About::of_others()) } else { (key, about) };
        if let Some(count) = self.0.get_mut(&key)
            && (count.more > 0 || now.duration_since(count.since) < INTERVAL)
        {
            count.more += 1;
            count.about = about;
            return false;
        }
        self.0.insert(key, Count { since: now, more: 0, about });
        true
    }

    /// The sums that are due; what has not repeated is forgotten.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Sum> {
        self.take(now, |count| now.duration_since(count.since) >= INTERVAL)
    }

    /// All of them, at the end.
    pub(super) fn rest(&mut self, now: Instant) -> Vec<Sum> {
        self.take(now, |_| true)
    }

    fn take(&mut self, now: Instant, is_due: impl Fn(&Count) -> bool) -> Vec<Sum> {
        let mut sums = Vec::new();
        self.0.retain(|key, count| {
            if !is_due(count) {
                return true;
            }
            if count.more == 0 {
                return false;
            }
            let within = now.duration_since(count.since);
            sums.push(Sum { is_error: key.is_error, more: count.more, within, about: count.about.clone() });
            (count.more, count.since) = (0, now);
            true
        });
        sums.sort_by(|one, other| one.about.message.cmp(&other.about.message));
        sums
    }
}

fn other(is_error: bool) -> Key {
    Key { is_error, from: "", gist: String::new() }
}

impl About {
    fn of_others() -> Self {
        Self { message: "lines of many other kinds".to_owned(), ..Self::default() }
    }
}

/// A text without what differs each time: words with a digit in them become one sign, except codes of causes.
pub(super) fn gist(text: &str) -> String {
    let is_of_word = |char: char| char.is_alphanumeric() || char == '-' || char == '_';
    let mut gist = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = if is_of_word(first) {
            rest.find(|char| !is_of_word(char)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(end);
        let differs = word.contains(|char: char| char.is_ascii_digit()) && !is_code(word);
        gist.push_str(if differs { "#" } else { word });
        rest = after;
        if gist.len() > 500 {
            break;
        }
    }
    gist
}

/// Whether a word is the code of a cause, as in HTTP_503: capital letters first, then also digits. Ids are not, for they have
/// small letters or dashes or begin with a digit.
fn is_code(word: &str) -> bool {
    let is_of_code = |char: char| char.is_ascii_uppercase() || char.is_ascii_digit() || char == '_';
    word.starts_with(|char: char| char.is_ascii_uppercase()) && word.len() > 1 && word.chars().all(is_of_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key { is_error: false, from: "here", gist: gist(text) }
    }

    fn about(message: &str) -> About {
        About { message: message.to_owned(), ..About::default() }
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a8_the_first_is_written_and_the_rest_is_summed_up() {
        let (mut sums, start) = (Sums::default(), Instant::now());
        let written = (0..1_000).filter(|n| {
            let text = format!("id 0199d8f0-{n} is dead");
            sums.is_written(key(&text), about(&text), start)
        });
        assert_eq!(written.count(), 1);
        assert_eq!(sums.due(after(start, 9)), []);
        let told = sums.due(after(start, 10));
        assert_eq!((told.len(), told[0].more), (1, 999));
        assert_eq!(told[0].about.message, "id 0199d8f0-999 is dead", "the newest stands for all");
        // It goes on.
        assert!(!sums.is_written(key("id 5 is dead"), about("x"), after(start, 11)));
        assert_eq!(sums.due(after(start, 20))[0].more, 1);
        // Then there is rest, and the next is news again.
        assert_eq!(sums.due(after(start, 30)), []);
        assert!(sums.is_written(key("id 5 is dead"), about("x"), after(start, 31)));
    }

    #[test]
    fn a8_what_changes_is_written() {
        let (mut sums, start) = (Sums::default(), Instant::now());
        for text in [
            "UNREACHABLE: refused",
            "TIMEOUT: no answer",
            "UNREACHABLE: no such host",
            "HTTP_401: refused",
            "HTTP_503: refused",
        ] {
            assert!(sums.is_written(key(text), about(text), start), "{text}");
            assert!(!sums.is_written(key(text), about(text), start), "{text}");
        }
        let error = Key { is_error: true, ..key("UNREACHABLE: refused") };
        assert!(sums.is_written(error, about("x"), start));
    }

    #[test]
    fn a8_at_the_end_nothing_is_left_untold() {
        let (mut sums, start) = (Sums::default(), Instant::now());
        for _ in 0..3 {
            sums.is_written(key("a"), about("a"), start);
        }
        sums.is_written(key("b"), about("b"), start);
        let rest = sums.rest(after(start, 1));
        assert_eq!((rest.len(), rest[0].more, rest[0].within), (1, 2, Duration::from_secs(1)));
        assert_eq!(sums.rest(after(start, 1)), []);
    }

    #[test]
    fn a8_what_never_repeats_does_not_take_all_memory() {
        let (mut sums, start) = (Sums::default(), Instant::now());
        let letters = |n: usize| {
            n.to_string().chars().map(|digit| char::from(b'a' + digit as u8 - b'0')).collect::<String>()
        };
        let written = (0..2_000).filter(|n| sums.is_written(key(&letters(*n)), about("x"), start));
        assert_eq!(written.count(), KINDS + 1);
        assert!(sums.0.len() <= KINDS + 1);
        let told = sums.rest(start);
        assert_eq!((told.len(), told[0].more), (1, 2_000 - 501));
        assert_eq!(told[0].about.message, "lines of many other kinds");
    }

    #[test]
    fn a8_ids_and_numbers_make_no_difference() {
        assert_eq!(
            gist("message 0199d8f0-aaaa: took 5 s (HTTP_422), key=a"),
            "message #: took # s (HTTP_422), key=a"
        );
        assert_eq!(gist("AMQP_320 42P01 A1 a1 X-1 0A"), "AMQP_320 # A1 # # #");
        assert!(gist(&"long ".repeat(1_000)).len() < 600);
    }
}

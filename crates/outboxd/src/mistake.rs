//! What is wrong in a configuration: every mistake with its place, the rule and the way out.
//!
//! The reader and the plan collect, so that one run tells all of them; nothing is shown before the end.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// A place in the text of a configuration, in bytes from its start.
pub type Place = usize;

/// A value with the place where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub place: Place,
}

impl<T> At<T> {
    /// A value and its place.
    pub fn new(value: T, place: Place) -> Self {
        Self { value, place }
    }
}

/// How much something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gravity {
    /// It cannot be used.
    Mistake,
    /// It can, and somebody should look at it.
    Warning,
}

/// Collects mistakes and warnings while a configuration is read.
#[derive(Debug, Default)]
pub struct Mistakes(RefCell<Vec<(Gravity, Place, String, String)>>);

impl Mistakes {
    /// Takes down one mistake: what is wrong, and what to do.
    pub fn note(&self, place: Place, what: impl Into<String>, help: impl Into<String>) {
        self.0.borrow_mut().push((Gravity::Mistake, place, what.into(), help.into()));
    }

    /// Takes down what can be used as it is and may not be meant so.
    pub fn warn(&self, place: Place, what: impl Into<String>, help: impl Into<String>) {
        self.0.borrow_mut().push((Gravity::Warning, place, what.into(), help.into()));
    }

    /// Whether there is no mistake; warnings are none.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().iter().all(|(gravity, ..)| *gravity == Gravity::Warning)
    }

    /// All mistakes, in the order of the file.
    pub fn into_invalid(self, file: &Path, text: &str) -> Invalid {
        Invalid { file: file.to_owned(), mistakes: self.shown(Gravity::Mistake, file, text) }
    }

    /// All warnings, in the order of the file.
    pub fn into_warnings(self, file: &Path, text: &str) -> Vec<Mistake> {
        self.shown(Gravity::Warning, file, text)
    }

    fn shown(self, gravity: Gravity, file: &Path, text: &str) -> Vec<Mistake> {
        let mut found = self.0.into_inner();
        found.retain(|(other, ..)| *other == gravity);
        found.sort_by_key(|(_, place, ..)| *place);
        let shown = found.into_iter().map(|(_, place, what, help)| {
            let (line, column) = line_and_column(text, place);
            Mistake { file: file.display().to_string(), line, column, what, help }
        });
        shown.collect()
    }
}

/// One mistake or warning, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong: the key, the value, the rule.
    pub what: String,
    /// What to do.
    pub help: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.what)
    }
}

/// A configuration that cannot be used, with everything that is wrong in it.
#[derive(Debug)]
pub struct Invalid {
    /// The file, as it was named.
    pub file: PathBuf,
    /// Every mistake, in the order of the file.
    pub mistakes: Vec<Mistake>,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.mistakes.len();
        let noun = if count == 1 { "mistake" } else { "mistakes" };
        write!(f, "{} has {count} {noun}", self.file.display())
    }
}

impl std::error::Error for Invalid {}

/// Line and column of a place; a place beyond the end is the end.
fn line_and_column(text: &str, place: Place) -> (usize, usize) {
    let mut end = place.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The nearest of `known` to what was typed, when it is near enough to be what was meant.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&typed.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= 1 + name.len().max(typed.len()) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Advice for a name that is not known: the nearest one, or all of them.
pub fn did_you_mean<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(typed, known.iter().copied()) {
        Some(name) => format!("did you mean '{name}'?"),
        None => format!("known are: {}", known.join(", ")),
    }
}

/// Where a span begins.
pub fn start(span: Range<usize>) -> Place {
    span.start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_lines_and_characters() {
        let text = "a = 1\nä = 2\n";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, text.find("= 2").expect("it is there")), (2, 3));
        assert_eq!(line_and_column(text, 1_000), (3, 1));
    }

    #[test]
    fn only_a_near_name_is_suggested() {
        assert_eq!(nearest("bacth", ["batch", "depth"]), Some("batch"));
        assert_eq!(nearest("conections", ["connections", "sources"]), Some("connections"));
        assert_eq!(nearest("colour", ["batch", "depth"]), None);
        assert_eq!(did_you_mean("zzz", ["a", "b"]), "known are: a, b");
    }
}

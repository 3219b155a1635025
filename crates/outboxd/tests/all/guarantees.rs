//! Holds `docs/guarantees.md` against the tests that it names.

use std::path::Path;

const PAGE: &str = include_str!("../../../../docs/guarantees.md");

/// Links whose text is code: the name of a test or a suite, and the file in which it should be.
fn named() -> Vec<(&'static str, &'static str)> {
    let links = PAGE.split("[`").skip(1).filter_map(|rest| rest.split_once("`]("));
    let links = links.filter_map(|(name, rest)| Some((name, rest.split_once(')')?.0)));
    links.filter(|(_, file)| file.ends_with(".rs")).collect()
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_').any(|part| part == word)
}

#[test]
fn every_test_that_is_named_is_there() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let named = named();
    assert!(named.len() > 100, "only {}", named.len());
    let is_missing = |(name, file): &(&str, &str)| {
        let text = std::fs::read_to_string(docs.join(file)).unwrap_or_default();
        !has_word(&text, name)
    };
    let missing: Vec<_> = named.into_iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_promise_says_what_shows_it_or_that_nothing_does() {
    let mut is_list = false;
    for line in PAGE.lines() {
        let is_row = line.starts_with('|');
        if is_row && is_list && !line.starts_with("| ---") {
            let shown = line.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or_default();
            let is_told =
                ["](../crates/", "`outboxd verify", "no test"].iter().any(|words| shown.contains(words));
            assert!(is_told, "{line}");
        }
        is_list = is_row && (is_list || line.ends_with("| shown by |"));
    }
}

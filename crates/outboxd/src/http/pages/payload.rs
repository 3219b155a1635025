//! A payload for the eye: JSON as a tree in which every number and every text stands as it was written, text as text,
//! everything else as bytes. Pure.

use std::fmt::{self, Write};

use askama::filters::HtmlSafe;
use serde::de::IgnoredAny;

/// So much of a payload is shown; the command line has all of it.
const SHOWN: usize = 128 * 1024;

/// So many bytes are shown as hex.
const HEX: usize = 2 * 1024;

/// So deep a tree is open from the start.
const OPEN: usize = 3;

/// A tree that is deeper is shown as text: each step down takes some of the stack.
const DEEPEST: usize = 100;

/// A payload, ready to be written into a page.
#[derive(Debug)]
pub enum Payload {
    /// Nothing is in it.
    Empty,
    /// JSON.
    Tree(Tree),
    /// Text, and whether it is all.
    Text(String, bool),
    /// Bytes, and whether these are all.
    Bytes(String, bool),
}

impl Payload {
    /// What these bytes are.
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::Empty;
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Self::Bytes(hex(&bytes[..bytes.len().min(HEX)]), bytes.len() <= HEX);
        };
        let is_tree = || serde_json::from_str::<IgnoredAny>(text).is_ok() && depth(text) <= DEEPEST;
        if text.len() <= SHOWN && is_tree() {
            return Self::Tree(Tree(text.to_owned()));
        }
        let mut end = text.len().min(SHOWN);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self::Text(text[..end].to_owned(), end == text.len())
    }
}

/// JSON that was checked to be so.
#[derive(Debug)]
pub struct Tree(String);

/// Every text in it is escaped.
impl HtmlSafe for Tree {}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tokens = Tokens { rest: &self.0 };
        node(f, &mut tokens, None, 0)
    }
}

/// Goes through JSON that is known to be well formed; tokens are taken as they stand.
struct Tokens<'t> {
    rest: &'t str,
}

impl<'t> Tokens<'t> {
    /// The next sign that is no space.
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        self.rest.chars().next()
    }

    fn skip(&mut self) {
        self.rest = self.rest.get(1..).unwrap_or_default();
    }

    /// A string with its quotes, a number or a word, as it stands.
    fn token(&mut self) -> &'t str {
        let end = if self.peek() == Some('"') { end_of_string(self.rest) } else { end_of_word(self.rest) };
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        token
    }
}

fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, sign) in text.char_indices().skip(1) {
        match sign {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// How deep JSON goes that is known to be well formed.
fn depth(text: &str) -> usize {
    let (mut tokens, mut depth, mut deepest) = (Tokens { rest: text }, 0_usize, 0);
    while let Some(sign) = tokens.peek() {
        match sign {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            ',' | ':' => {}
            _ => {
                tokens.token();
                continue;
            }
        }
        deepest = deepest.max(depth);
        tokens.skip();
    }
    deepest
}

fn end_of_word(text: &str) -> usize {
    text.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(text.len())
}

fn node(
    f: &mut fmt::Formatter<'_>,
    tokens: &mut Tokens<'_>,
    name: Option<&str>,
    depth: usize,
) -> fmt::Result {
    match tokens.peek() {
        Some('{') => branch(f, tokens, name, depth, ('{', '}')),
        Some('[') => branch(f, tokens, name, depth, ('[', ']')),
        _ => {
            let token = tokens.token();
            let class = match token.chars().next() {
                Some('"') => "text",
                Some('t' | 'f' | 'n') => "word",
                _ => "digits",
            };
            f.write_str("<div class=\"leaf\">")?;
            label(f, name)?;
            write!(f, "<span class=\"{class}\">")?;
            escape(f, token)?;
            f.write_str("</span></div>")
        }
    }
}

fn branch(
    f: &mut fmt::Formatter<'_>,
    tokens: &mut Tokens<'_>,
    name: Option<&str>,
    depth: usize,
    (open, close): (char, char),
) -> fmt::Result {
    tokens.skip();
    if tokens.peek() == Some(close) {
        tokens.skip();
        f.write_str("<div class=\"leaf\">")?;
        label(f, name)?;
        return write!(f, "{open}{close}</div>");
    }
    write!(f, "<details{}><summary>", if depth < OPEN { " open" } else { "" })?;
    label(f, name)?;
    write!(f, "{open}…{close}</summary>")?;
    loop {
        if open == '{' {
            let key = tokens.token();
            tokens.peek();
            tokens.skip();
            node(f, tokens, Some(key), depth + 1)?;
        } else {
            node(f, tokens, None, depth + 1)?;
        }
        let more = tokens.peek() == Some(',');
        tokens.skip();
        if !more {
            return f.write_str("</details>");
        }
    }
}

fn label(f: &mut fmt::Formatter<'_>, name: Option<&str>) -> fmt::Result {
    let Some(name) = name else { return Ok(()) };
    f.write_str("<span class=\"name\">")?;
    escape(f, name)?;
    f.write_str("</span>: ")
}

fn escape(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for sign in text.chars() {
        match sign {
            '<' => f.write_str("&lt;")?,
            '>' => f.write_str("&gt;")?,
            '&' => f.write_str("&amp;")?,
            '"' => f.write_str("&quot;")?,
            '\'' => f.write_str("&#39;")?,
            other => f.write_char(other)?,
        }
    }
    Ok(())
}

/// Sixteen bytes a line: where, the bytes, and what of them can be read.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, bytes) in bytes.chunks(16).enumerate() {
        let _ = write!(text, "{:06x} ", line * 16);
        for at in 0..16 {
            let gap = if at == 8 { "  " } else { " " };
            let _ = match bytes.get(at) {
                Some(byte) => write!(text, "{gap}{byte:02x}"),
                None => write!(text, "{gap}  "),
            };
        }
        text.push_str("  ");
        let readable = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' };
        text.extend(bytes.iter().map(readable));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(json: &str) -> String {
        match Payload::of(json.as_bytes()) {
            Payload::Tree(tree) => tree.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_stand_as_they_were_written() {
        let shown = tree(r#"{"id": 12345678901234567890123, "price": 0.10, "small": -1e-400}"#);
        for number in ["12345678901234567890123", "0.10", "-1e-400"] {
            assert!(shown.contains(&format!("<span class=\"digits\">{number}</span>")), "{shown}");
        }
    }

    #[test]
    fn a_tree_has_everything_in_its_order_also_twice() {
        let shown = tree(" [ {\"b\":[],\"a\":{},\"b\":[true,null]} , \"x, y\\\"]\" ] ");
        let text: String =
            shown.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text).collect();
        assert_eq!(
            text,
            "[…]{…}&quot;b&quot;: []&quot;a&quot;: {}&quot;b&quot;: […]truenull&quot;x, y\\&quot;]&quot;"
        );
        assert_eq!(shown.matches("<details").count(), shown.matches("</details>").count());
    }

    #[test]
    fn nothing_in_a_payload_is_markup() {
        let shown = tree(r#"{"<script>": "</span><img src=x onerror='a'>"}"#);
        assert!(!shown.contains("<script>") && !shown.contains("<img"), "{shown}");
    }

    #[test]
    fn what_is_no_json_is_text_and_what_is_no_text_is_bytes() {
        assert!(matches!(Payload::of(b""), Payload::Empty));
        assert!(matches!(Payload::of(b"{oops"), Payload::Text(text, true) if text == "{oops"));
        let long = "é".repeat(SHOWN);
        assert!(matches!(Payload::of(long.as_bytes()), Payload::Text(text, false) if text.len() == SHOWN));
        let Payload::Bytes(shown, true) = Payload::of(b"\xff\x00Hi") else { panic!("it is no text") };
        assert!(shown.starts_with("000000  ff 00 48 69") && shown.trim_end().ends_with("..Hi"), "{shown}");
        assert!(matches!(Payload::of(&vec![0xff; HEX + 1]), Payload::Bytes(_, false)));
    }

    #[test]
    fn a_tree_that_is_too_deep_is_text() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for (depth, is_tree) in [(DEEPEST, true), (DEEPEST + 1, false), (50_000, false)] {
            let payload = Payload::of(nested(depth).as_bytes());
            assert_eq!(matches!(payload, Payload::Tree(_)), is_tree, "{depth}");
        }
        assert_eq!(depth(r#"{"a:[": [1, "]]", {"b": [-2.5]}]}"#), 4);
    }
}

//! Finds the values in a statement, and leaves everything else alone: literals, quoted names, comments, casts.

use super::Kind;
use super::value::{Source, Value};
use crate::view::Path;

/// A part of a statement.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    Text(String),
    Value(Value),
}

/// What is wrong with a statement, and where.
#[derive(Debug)]
pub(super) struct Mistake {
    at: usize,
    pub(super) what: String,
}

impl Mistake {
    /// Line and character, from 1.
    pub(super) fn place(&self, text: &str) -> (usize, usize) {
        let before = &text[..self.at];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        (line, column)
    }
}

const NAMES: &str =
    ":id, :type, :key, :correlation_id, :time, :attempts, :payload, :payload.PATH and :header.NAME";

pub(super) struct Scan<'a> {
    kind: Kind,
    text: &'a str,
    at: usize,
    /// Where the text begins that is not yet a piece.
    from: usize,
    pieces: Vec<Piece>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(kind: Kind, text: &'a str) -> Self {
        Self { kind, text, at: 0, from: 0, pieces: Vec::new() }
    }

    pub(super) fn run(mut self) -> Result<Vec<Piece>, Mistake> {
        let (mut end, mut is_empty) = (None, true);
        while let Some(c) = self.peek() {
            let start = self.at;
            if c.is_whitespace() || self.comment()? {
                if c.is_whitespace() {
                    self.at += c.len_utf8();
                }
                continue;
            }
            if let Some(end) = end {
                let what = "a second statement begins; write each as a text of its own";
                return Err(mistake(if c == ';' { end } else { start }, what));
            }
            if c == ';' {
                end = Some(start);
                self.cut(start);
                self.at += 1;
                continue;
            }
            is_empty = false;
            self.token(c)?;
        }
        if is_empty {
            return Err(mistake(0, "there is no statement"));
        }
        if end.is_none() {
            self.cut(self.text.len());
        }
        Ok(self.pieces)
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// What was read up to here is text.
    fn cut(&mut self, to: usize) {
        if to > self.from {
            self.pieces.push(Piece::Text(self.text[self.from..to].to_owned()));
        }
        self.from = to;
    }

    /// Passes a comment, if one begins here.
    fn comment(&mut self) -> Result<bool, Mistake> {
        let (rest, start) = (self.rest(), self.at);
        // In MySQL two dashes are a comment only before a space: 5--1 is 6.
        let dashes = rest.starts_with("--")
            && (self.kind != Kind::MySql || rest[2..].chars().next().is_none_or(char::is_whitespace));
        if dashes || (self.kind == Kind::MySql && rest.starts_with('#')) {
            self.at += rest.find('\n').unwrap_or(rest.len());
            return Ok(true);
        }
        if !rest.starts_with("/*") {
            return Ok(false);
        }
        let mut depth = 0;
        loop {
            let rest = self.rest();
            if rest.starts_with("/*") && (depth == 0 || self.kind == Kind::Postgres) {
                depth += 1;
                self.at += 2;
            } else if rest.starts_with("*/") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    return Ok(true);
                }
            } else {
                let c = self.peek().ok_or_else(|| mistake(start, "this comment does not end"))?;
                self.at += c.len_utf8();
            }
        }
    }

    /// Passes one token that is no space and no comment.
    fn token(&mut self, c: char) -> Result<(), Mistake> {
        let next = self.rest()[c.len_utf8()..].chars().next();
        match c {
            '\'' => self.quoted('\'', self.kind == Kind::MySql),
            '"' => self.quoted('"', self.kind == Kind::MySql),
            '`' if self.kind != Kind::Postgres => self.quoted('`', false),
            '[' if self.kind == Kind::Sqlite => self.quoted(']', false),
            '$' if self.kind == Kind::Postgres => self.dollar(next),
            ':' if next == Some(':') => {
                self.at += 2;
                Ok(())
            }
            ':' if next.is_some_and(|c| c.is_alphabetic() || c == '_') => self.value(),
            '?' if self.kind != Kind::Postgres => Err(self.unnamed("?")),
            '@' | '$' if self.kind == Kind::Sqlite && next.is_some_and(is_word) => {
                Err(self.unnamed(&format!("{c}…")))
            }
            c if is_word(c) => {
                self.word();
                Ok(())
            }
            c => {
                self.at += c.len_utf8();
                Ok(())
            }
        }
    }

    fn unnamed(&self, what: &str) -> Mistake {
        mistake(self.at, &format!("{what} stands for a value that nobody gives; there are {NAMES}"))
    }

    /// A word; in PostgreSQL one that ends in E or e makes the literal behind it one with backslashes.
    fn word(&mut self) {
        let rest = self.rest();
        let length = rest.find(|c: char| !is_word(c) && c != '$').unwrap_or(rest.len());
        let word = &rest[..length];
        self.at += length;
        if self.kind == Kind::Postgres && word.eq_ignore_ascii_case("e") && self.rest().starts_with('\'') {
            // A literal that does not end is told by the database.
            if self.quoted('\'', true).is_err() {
                self.at = self.text.len();
            }
        }
    }

    /// Passes what stands between marks; a doubled mark, or one behind a backslash, does not end it.
    fn quoted(&mut self, mark: char, backslash: bool) -> Result<(), Mistake> {
        let start = self.at;
        self.at += 1;
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            if c == '\\' && backslash {
                self.at += self.peek().map_or(0, char::len_utf8);
            } else if c == mark {
                if self.peek() != Some(mark) || mark == ']' {
                    return Ok(());
                }
                self.at += 1;
            }
        }
        Err(mistake(start, "what begins here in quotes does not end"))
    }

    /// `$1`, which is ours to give, or `$tag$ … $tag$`.
    fn dollar(&mut self, next: Option<char>) -> Result<(), Mistake> {
        if next.is_some_and(|c| c.is_ascii_digit()) {
            return Err(self.unnamed("$1"));
        }
        let (rest, start) = (self.rest(), self.at);
        let tag = rest[1..].find(|c: char| !is_word(c)).map_or(rest.len(), |length| length + 1);
        if !rest[tag..].starts_with('$') {
            self.at += 1;
            return Ok(());
        }
        let tag = &rest[..=tag];
        let end = rest[tag.len()..]
            .find(tag)
            .ok_or_else(|| mistake(start, &format!("what begins here with {tag} does not end")))?;
        self.at += end + 2 * tag.len();
        Ok(())
    }

    fn value(&mut self) -> Result<(), Mistake> {
        let start = self.at;
        self.cut(start);
        self.at += 1;
        let name = self.step(start, false)?;
        let is_header = name == "header";
        let mut steps = Vec::new();
        while self.rest().starts_with('.') {
            self.at += 1;
            steps.push(self.step(start, is_header)?);
        }
        let source = source(&name, steps).map_err(|what| mistake(start, &what))?;
        let optional = self.rest().starts_with('?');
        if optional {
            self.at += 1;
            if !matches!(source, Source::Key | Source::Header(_) | Source::Payload | Source::Path(_)) {
                return Err(mistake(start, &format!(":{name} is on every message and needs no ?")));
            }
        }
        self.pieces.push(Piece::Value(Value { source, optional }));
        self.from = self.at;
        Ok(())
    }

    /// A word of a name, or anything in double quotes. Only the name of a header may have a dash: elsewhere it is a
    /// minus.
    fn step(&mut self, start: usize, dash: bool) -> Result<String, Mistake> {
        let rest = self.rest();
        if rest.starts_with('"') {
            let from = self.at + 1;
            self.quoted('"', false)?;
            return Ok(self.text[from..self.at - 1].replace("\"\"", "\""));
        }
        let belongs = |c: char| is_word(c) || (dash && c == '-');
        let length = rest.find(|c: char| !belongs(c)).unwrap_or(rest.len());
        if length == 0 {
            return Err(mistake(start, "the name of a value ends with a dot, as in :payload.customer.email"));
        }
        self.at += length;
        Ok(rest[..length].to_owned())
    }
}

fn source(name: &str, steps: Vec<String>) -> Result<Source, String> {
    if !steps.is_empty() && !matches!(name, "payload" | "header") {
        return Err(format!(":{name} has no parts; there are {NAMES}"));
    }
    match name {
        "id" => Ok(Source::Id),
        "type" => Ok(Source::Type),
        "key" => Ok(Source::Key),
        "correlation_id" => Ok(Source::Correlation),
        "time" => Ok(Source::Time),
        "attempts" => Ok(Source::Attempts),
        "payload" if steps.is_empty() => Ok(Source::Payload),
        "payload" => Ok(Source::Path(Path::of(steps))),
        "header" if steps.is_empty() => Err(":header lacks a name, as in :header.x-tenant".to_owned()),
        "header" => Ok(Source::Header(steps.join("."))),
        _ => Err(format!("there is no value :{name}; there are {NAMES}")),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn mistake(at: usize, what: &str) -> Mistake {
    Mistake { at, what: what.to_owned() }
}

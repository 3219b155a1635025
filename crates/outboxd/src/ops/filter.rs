//! Which messages are meant, as text: `type:order.* state:dead`. The same for the command line, the API and the pages.
//! Pure.

use std::fmt;

use outbox::admin::{Filter, Stand};
use serde_json::{Value, json};

use crate::mistake::did_you_mean;
use crate::trouble::Trouble;

/// The terms, as people are told of them.
const TERMS: [&str; 7] = ["type", "key", "id", "pipe", "state", "code", "header.NAME"];

const HEADER: &str = "header.";

const STANDS: [Stand; 5] = [Stand::Pending, Stand::Waiting, Stand::Behind, Stand::Dead, Stand::Done];

/// Which messages are meant; all that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Of this type; a trailing `*` matches any ending.
    pub kind: Option<String>,
    /// Of this key.
    pub key: Option<String>,
    /// This message.
    pub id: Option<String>,
    /// On this pipe.
    pub pipe: Option<String>,
    /// In this state.
    pub state: Option<Stand>,
    /// With this cause.
    pub code: Option<String>,
    /// With this header and value.
    pub header: Option<(String, String)>,
}

impl Selection {
    /// Reads a filter; what is wrong is told with its place.
    pub fn parse(text: &str) -> Result<Self, Trouble> {
        let mut reader = Reader { text, at: 0 };
        let mut all = Self::default();
        while let Some((at, name, value)) = reader.term()? {
            let one = Self::of(&name, value).map_err(|(what, help)| wrong(text, at, &what, help))?;
            all = all.and(one).map_err(|(what, help)| wrong(text, at, &what, help))?;
        }
        Ok(all)
    }

    fn of(name: &str, value: String) -> Result<Self, (String, String)> {
        let mut one = Self::default();
        match name {
            "type" => one.kind = Some(value),
            "key" => one.key = Some(value),
            "id" => one.id = Some(value),
            "pipe" => one.pipe = Some(value),
            "code" => one.code = Some(value),
            "state" => match STANDS.into_iter().find(|stand| stand.as_str() == value) {
                Some(stand) => one.state = Some(stand),
                None => {
                    let help = did_you_mean(&value, STANDS.map(Stand::as_str));
                    return Err((format!("there is no state '{}'", shown(&value)), help));
                }
            },
            _ => match name.strip_prefix(HEADER) {
                Some("") => {
                    return Err((
                        "a header needs its name".to_owned(),
                        "write header.NAME:VALUE, as in header.x-saga-id:42".to_owned(),
                    ));
                }
                Some(header) => one.header = Some((header.to_owned(), value)),
                None => {
                    return Err((format!("there is no term '{}'", shown(name)), did_you_mean(name, TERMS)));
                }
            },
        }
        Ok(one)
    }

    /// What both say. Two that contradict each other are a mistake: nothing could match.
    pub fn and(self, other: Self) -> Result<Self, (String, String)> {
        let state = |one: &Self| one.state.map(|state| state.as_str().to_owned());
        let (ours, theirs) = (state(&self), state(&other));
        one_of("state", ours, theirs)?;
        let headers = (self.header, other.header);
        Ok(Self {
            kind: one_of("type", self.kind, other.kind)?,
            key: one_of("key", self.key, other.key)?,
            id: one_of("id", self.id, other.id)?,
            pipe: one_of("pipe", self.pipe, other.pipe)?,
            code: one_of("code", self.code, other.code)?,
            state: self.state.or(other.state),
            header: match headers {
                (Some(one), Some(two)) if one != two => {
                    let (one, two) = (shown(&one.0), shown(&two.0));
                    let what = format!("'header.{one}' and 'header.{two}' cannot both be asked for");
                    return Err((what, "ask for one header, and one value of it".to_owned()));
                }
                (one, two) => one.or(two),
            },
        })
    }

    /// The filter of the library.
    pub fn filter(&self) -> Filter {
        Filter {
            cursor: self.pipe.clone(),
            stand: self.state,
            id: self.id.as_deref().map(Into::into),
            kind: self.kind.clone(),
            key: self.key.clone(),
            code: self.code.clone(),
            header: self.header.clone(),
            ..Filter::default()
        }
    }

    /// What is set, for the record.
    pub fn to_json(&self, source: Option<&str>) -> Value {
        let all = json!({
            "source": source,
            "pipe": self.pipe,
            "state": self.state.map(Stand::as_str),
            "type": self.kind,
            "key": self.key,
            "id": self.id,
            "code": self.code,
            "header": self.header,
        });
        match all {
            Value::Object(all) => all.into_iter().filter(|(_, value)| !value.is_null()).collect(),
            other => other,
        }
    }
}

fn one_of(name: &str, one: Option<String>, two: Option<String>) -> Result<Option<String>, (String, String)> {
    match (one, two) {
        (Some(one), Some(two)) if one != two => {
            let what = format!("'{name}' cannot be both '{}' and '{}'", shown(&one), shown(&two));
            Err((what, format!("ask for one {name}")))
        }
        (one, two) => Ok(one.or(two)),
    }
}

/// As a filter that is read as the same again.
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.map(|state| state.as_str().to_owned());
        let header = self.header.as_ref().map(|(name, value)| (format!("{HEADER}{}", quoted(name)), value));
        let plain = [
            ("type", &self.kind),
            ("key", &self.key),
            ("id", &self.id),
            ("pipe", &self.pipe),
            ("state", &state),
            ("code", &self.code),
        ];
        let plain = plain.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.as_ref()?)));
        for (place, (name, value)) in plain.chain(header).enumerate() {
            let space = if place == 0 { "" } else { " " };
            write!(f, "{space}{name}:{}", quoted(value))?;
        }
        Ok(())
    }
}

fn quoted(value: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !matches!(c, '"' | ':' | '\\');
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// What somebody typed, short enough for a line.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

fn wrong(text: &str, at: usize, what: &str, help: impl Into<String>) -> Trouble {
    let place = text[..at].chars().count() + 1;
    Trouble::usage(format!("the filter, at character {place}: {what}"), help)
}

/// Goes through a filter, term by term.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Where the next term begins, its name and its value.
    fn term(&mut self) -> Result<Option<(usize, String, String)>, Trouble> {
        self.at = self.text.len() - self.rest().trim_start().len();
        let begin = self.at;
        if self.rest().is_empty() {
            return Ok(None);
        }
        let name = if self.rest().starts_with("header.\"") {
            self.at += HEADER.len();
            format!("{HEADER}{}", self.quoted()?)
        } else {
            self.take_while(|c| c != ':' && !c.is_whitespace())
        };
        if !self.rest().starts_with(':') {
            let what = format!("'{}' is no term", shown(&name));
            return Err(wrong(self.text, begin, &what, "write NAME:VALUE, as in type:order.* or state:dead"));
        }
        self.at += 1;
        let value = match self.rest().chars().next() {
            Some('"') => self.quoted()?,
            _ => self.take_while(|c| !c.is_whitespace()),
        };
        let is_over = self.rest().chars().next().is_none_or(char::is_whitespace);
        if !is_over {
            return Err(wrong(self.text, self.at, "a quoted value has ended", "put a space before the next"));
        }
        if value.is_empty() && !self.text[..self.at].ends_with("\"\"") {
            let what = format!("'{}' has no value", shown(&name));
            return Err(wrong(self.text, begin, &what, "write one after the colon; an empty one is \"\""));
        }
        if name.contains('\0') || value.contains('\0') {
            return Err(wrong(self.text, begin, "a NUL character matches nothing", "leave it out"));
        }
        Ok(Some((begin, name, value)))
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let rest = self.rest();
        let part = rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())].to_owned();
        self.at += part.len();
        part
    }

    /// What stands between quotes; a backslash takes the next character as it is.
    fn quoted(&mut self) -> Result<String, Trouble> {
        let (begin, mut value) = (self.at, String::new());
        let mut all = self.rest().char_indices().skip(1);
        while let Some((place, c)) = all.next() {
            match c {
                '"' => {
                    self.at = begin + place + 1;
                    return Ok(value);
                }
                '\\' => value.extend(all.next().map(|(_, c)| c)),
                c => value.push(c),
            }
        }
        Err(wrong(self.text, begin, "a quote is not closed", "end it with \"; within it write \\\""))
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;

//! Texts made from a message: routing keys, topics, header values, letters.
//!
//! A sink parses its templates once, at configuration time, so that every mistake in them is told before the
//! first message; what a single message lacks is found at render time and is that message's fault.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::view::{Path, View};

/// What may stand between braces, for the message that tells a mistake.
const FIELDS: [&str; 7] = ["type", "type.dotted", "key", "id", "correlation_id", "time", "time.unix"];
const HEADER: &str = "header.";
const PAYLOAD: &str = "payload.";

/// A text with fields of a message in it, as in `{type}` or `orders.{key|none}`.
///
/// | field | stands for |
/// | --- | --- |
/// | `{type}` | the type, as it is |
/// | `{type.dotted}` | the type as a routing key, see [`dotted`] |
/// | `{key}` | the key; an error when the message has none |
/// | `{id}` | the id |
/// | `{correlation_id}` | what the message correlates with, see [`Message::correlation_id`] |
/// | `{time}` | when it happened, RFC 3339 |
/// | `{time.unix}` | when it happened, whole seconds since 1970 |
/// | `{header.NAME}` | a header; an error when the message does not have it |
/// | `{payload.PATH}` | what stands there in a JSON payload, see [`Path`]; an error when nothing does |
///
/// `{key|none}`, `{header.NAME|text}` and `{payload.PATH|text}` give what to use instead of an error. `{{` and `}}` are braces.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(Field, Option<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Type,
    Dotted,
    Key,
    Id,
    Correlation,
    Time,
    Unix,
    Header(String),
    Payload(Path),
}

impl Template {
    /// Reads a template; a mistake is told with its position and what is allowed there.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let position = text.len() - rest.len() + at;
            literal.push_str(&rest[..at]);
            let brace = &rest[at..];
            if brace.starts_with("{{") || brace.starts_with("}}") {
                literal.push_str(&brace[..1]);
                rest = &brace[2..];
            } else if brace.starts_with('}') {
                return Err(mistake(text, position, "this '}' closes nothing; write '}}' for a brace"));
            } else {
                let Some(end) = brace.find('}') else {
                    return Err(mistake(text, position, "this '{' is not closed; write '{{' for a brace"));
                };
                if !literal.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                }
                parts.push(field(&brace[1..end]).map_err(|what| mistake(text, position, &what))?);
                rest = &brace[end + 1..];
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self { text: text.to_owned(), parts })
    }

    /// The text for one message; an error of kind [`ErrorKind::Invalid`] when it lacks a field without default.
    pub fn render<'a>(&'a self, message: &'a Message) -> Result<Cow<'a, str>> {
        self.render_view(&View::new(message))
    }

    /// The same, for a message of which several templates are rendered: its payload is read once.
    pub fn render_view<'a>(&'a self, view: &View<'a>) -> Result<Cow<'a, str>> {
        // Most templates are one field or one text: those cost no allocation.
        match self.parts.as_slice() {
            [] => Ok(Cow::Borrowed("")),
            [part] => self.part(part, view),
            parts => {
                let mut text = String::new();
                for part in parts {
                    text.push_str(&self.part(part, view)?);
                }
                Ok(Cow::Owned(text))
            }
        }
    }

    /// The text for one message as HTML: what stands for a field is escaped, so that it can neither be read as markup
    /// nor end a quoted attribute. The text around the fields is the author's and stays as it is.
    pub fn render_html(&self, view: &View<'_>) -> Result<String> {
        let mut html = String::with_capacity(self.text.len());
        for part in &self.parts {
            match part {
                Part::Text(text) => html.push_str(text),
                Part::Field(..) => self.part(part, view)?.chars().for_each(|c| match escape(c) {
                    Some(escaped) => html.push_str(escaped),
                    None => html.push(c),
                }),
            }
        }
        Ok(html)
    }

    /// The text that it gives for every message, if there is no field in it.
    pub fn as_text(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The template as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn part<'a>(&'a self, part: &'a Part, view: &View<'a>) -> Result<Cow<'a, str>> {
        let message = view.message();
        let (field, default) = match part {
            Part::Text(text) => return Ok(Cow::Borrowed(text)),
            Part::Field(field, default) => (field, default.as_deref()),
        };
        let (value, missing) = match field {
            Field::Type => (Some(message.kind.as_str()), "type"),
            Field::Dotted => return Ok(Cow::Owned(dotted(&message.kind))),
            Field::Key => (message.key.as_deref(), "key"),
            Field::Id => (Some(message.id.as_str()), "id"),
            Field::Correlation => (Some(message.correlation_id()), "correlation id"),
            Field::Time => return Ok(Cow::Owned(message.occurred_at.to_string())),
            Field::Unix => return Ok(Cow::Owned(message.occurred_at.as_second().to_string())),
            Field::Header(name) => (message.headers.get(name).map(String::as_str), name.as_str()),
            Field::Payload(path) => {
                let value = view.text(path)?.or_else(|| default.map(str::to_owned));
                let what = || lacks(&format!("'{path}' in its payload"), &format!("{PAYLOAD}{path}"));
                return value.map(Cow::Owned).ok_or_else(what);
            }
        };
        value.or(default).map(Cow::Borrowed).ok_or_else(|| {
            if matches!(field, Field::Header(_)) {
                lacks(&format!("header '{missing}'"), &format!("{HEADER}{missing}"))
            } else {
                lacks(missing, missing)
            }
        })
    }
}

/// Names the field and not the template: that may be a whole letter, or hold a secret.
fn lacks(what: &str, field: &str) -> Error {
    let why = format!("the message has no {what}, which its template asks for as {{{field}}}");
    Error::new(ErrorKind::Invalid, why)
}

fn escape(c: char) -> Option<&'static str> {
    Some(match c {
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '"' => "&quot;",
        '\'' => "&#39;",
        _ => return None,
    })
}

impl FromStr for Template {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Template({:?})", self.text)
    }
}

fn mistake(text: &str, position: usize, what: &str) -> Error {
    let column = text[..position].chars().count() + 1;
    Error::new(ErrorKind::Config, format!("template '{text}', character {column}: {what}"))
}

fn field(inside: &str) -> Result<Part, String> {
    let (name, default) = match inside.split_once('|') {
        Some((name, default)) => (name.trim(), Some(default.to_owned())),
        None => (inside.trim(), None),
    };
    let field = match name {
        "type" => Field::Type,
        "type.dotted" => Field::Dotted,
        "key" => Field::Key,
        "id" => Field::Id,
        "correlation_id" => Field::Correlation,
        "time" => Field::Time,
        "time.unix" => Field::Unix,
        _ if name.starts_with(PAYLOAD) => {
            Field::Payload(Path::parse(&name[PAYLOAD.len()..]).map_err(|error| error.to_string())?)
        }
        _ => match name.strip_prefix(HEADER) {
            Some("") => return Err("{header.} lacks the name of the header, as in {header.region}".into()),
            Some(header) => Field::Header(header.to_owned()),
            None => return Err(unknown(name)),
        },
    };
    if default.is_some() && !matches!(field, Field::Key | Field::Header(_) | Field::Payload(_)) {
        return Err(format!("{{{name}}} is on every message and needs no default"));
    }
    Ok(Part::Field(field, default))
}

fn unknown(name: &str) -> String {
    let near = FIELDS
        .iter()
        .map(|field| (strsim::damerau_levenshtein(name, field), *field))
        .min()
        .filter(|(distance, _)| *distance <= 2 && !name.is_empty())
        .map(|(_, field)| format!("; did you mean {{{field}}}?"));
    let allowed = FIELDS.map(|field| format!("{{{field}}}")).join(", ");
    format!(
        "there is no field {{{name}}}{}; allowed are {allowed}, {{header.NAME}} and {{payload.PATH}}",
        near.unwrap_or_default()
    )
}

/// A type's name as a routing key: `TicketFlow.Domain.Events.TicketStatusChangedEvent` is
/// `ticket.status.changed`.
///
/// Of a qualified name the last segment counts; a trailing `Event` is dropped; words are lower-cased and
/// joined by dots; an acronym is one word and digits stay with the word before them (`HTTPOrderV2Placed` is
/// `http.order.v2.placed`). A name without capital letters is a routing key already and stays as it is.
pub fn dotted(kind: &str) -> String {
    if !kind.chars().any(char::is_uppercase) {
        return kind.to_owned();
    }
    // An assembly-qualified name goes on with ", Assembly, Version=…".
    let name = kind.split(',').next().unwrap_or(kind).trim();
    let name = name.rsplit(['.', ':', '+', '/', '\\']).find(|segment| !segment.is_empty()).unwrap_or(name);
    let letters: Vec<char> = name.chars().collect();
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    for (at, &letter) in letters.iter().enumerate() {
        let separates = !letter.is_alphanumeric();
        if (separates || starts_word(&letters, at)) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if !separates {
            word.extend(letter.to_lowercase());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    if words.len() > 1 && words.last().is_some_and(|last| last == "event") {
        words.pop();
    }
    words.join(".")
}

/// A capital starts a word after anything else, or as the last capital of an acronym: the `R` of `HTTPRequest`.
fn starts_word(letters: &[char], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|before| letters[before]) else { return true };
    letters[at].is_uppercase()
        && (!before.is_uppercase() || letters.get(at + 1).is_some_and(|after| after.is_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(template: &str, message: &Message) -> Result<String> {
        Template::parse(template)?.render(message).map(Cow::into_owned)
    }

    #[test]
    fn a5_the_routing_key_comes_from_the_type() {
        for (kind, key) in [
            ("TicketFlow.Domain.Events.TicketCreatedEvent", "ticket.created"),
            ("TicketStatusChangedEvent", "ticket.status.changed"),
            (
                "TicketFlow.Domain.Events.TicketCreatedEvent, TicketFlow.Domain, Version=1.0.0.0",
                "ticket.created",
            ),
            ("HTTPRequestFailed", "http.request.failed"),
            ("OrderV2Placed", "order.v2.placed"),
            ("UserIDChangedEvent", "user.id.changed"),
            ("shop::events::OrderPlaced", "order.placed"),
            ("Outer+InnerEvent", "inner"),
            ("Order_Placed", "order.placed"),
            ("Event", "event"),
            ("EventStored", "event.stored"),
            ("ticket.created", "ticket.created"),
            ("ÄnderungGespeichertEvent", "änderung.gespeichert"),
            ("", ""),
        ] {
            let message = Message::new(kind, "");
            assert_eq!(render("{type.dotted}", &message).unwrap(), key, "{kind}");
        }
    }

    #[test]
    fn fields_stand_for_what_the_message_has() {
        let message = Message::new("order.created", "")
            .id("7")
            .key("k")
            .header("region", "eu")
            .occurred_at("2026-01-02T03:04:05.5Z".parse().unwrap());
        assert_eq!(render("{type}", &message).unwrap(), "order.created");
        assert_eq!(render("a.{key}.{id}.{header.region}!", &message).unwrap(), "a.k.7.eu!");
        assert_eq!(render("{time} {time.unix}", &message).unwrap(), "2026-01-02T03:04:05.5Z 1767323045");
        assert_eq!(render("{correlation_id}", &message).unwrap(), "7");
        assert_eq!(render("{{{key}}} {{}}", &message).unwrap(), "{k} {}");
        assert_eq!(render("", &message).unwrap(), "");
    }

    #[test]
    fn what_is_missing_is_an_error_unless_a_default_is_given() {
        let message = Message::new("a", "");
        let error = render("x.{key}", &message).unwrap_err();
        assert_eq!(error.to_string(), "the message has no key, which its template asks for as {key}");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let error = render("{header.region}", &message).unwrap_err();
        assert!(error.to_string().contains("no header 'region'"), "{error}");
        assert_eq!(render("{key|none}/{header.region|}", &message).unwrap(), "none/");
        let message = Message::new("a", r#"{"to": {"name": "Ana"}}"#);
        assert_eq!(render("{payload.to.name} {payload.cc|-}", &message).unwrap(), "Ana -");
        let error = render("{payload.cc}", &message).unwrap_err();
        assert!(error.to_string().contains("no 'cc' in its payload"), "{error}");
    }

    #[test]
    fn in_html_fields_are_escaped_and_the_text_around_them_is_not() {
        let message = Message::new("a", r#"{"name": "<b>\"T&J's\"</b>", "n": 3}"#);
        let html = |text: &str| Template::parse(text).unwrap().render_html(&View::new(&message)).unwrap();
        assert_eq!(
            html("<p title='{payload.name}'>{payload.n} &amp; {{</p>"),
            "<p title='&lt;b&gt;&quot;T&amp;J&#39;s&quot;&lt;/b&gt;'>3 &amp; {</p>"
        );
        assert_eq!(html("{payload.none|<i>}"), "&lt;i&gt;", "a default stands for a field");
    }

    #[test]
    fn mistakes_are_told_with_their_place_and_what_is_allowed() {
        let told = |text: &str| {
            let error = Template::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            error.to_string()
        };
        assert!(
            told("a.{tpye}").starts_with(
                "template 'a.{tpye}', character 3: there is no field {tpye}; did you mean {type}?"
            )
        );
        assert!(told("{nothing.like.it}").contains("allowed are {type}, {type.dotted}, {key}"));
        assert!(told("ä{key").contains("character 2: this '{' is not closed"));
        assert!(told("key}").contains("character 4: this '}' closes nothing"));
        assert!(told("{header.}").contains("lacks the name of the header"));
        assert!(told("{id|x}").contains("needs no default"));
        assert!(told("{}").contains("there is no field {}"));
    }
}

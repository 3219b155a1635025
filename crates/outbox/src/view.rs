//! A message whose payload is looked into: paths into JSON, read at most once.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;

/// Where a value stands in a JSON payload: names, and numbers for places in a list, between dots, as in
/// `customer.email` or `lines.0.sku`.
#[derive(Clone, PartialEq, Eq)]
pub struct Path {
    steps: Vec<String>,
}

impl Path {
    /// Reads a path.
    pub fn parse(text: &str) -> Result<Self> {
        let steps: Vec<String> = text.split('.').map(str::to_owned).collect();
        if steps
            .iter()
            .any(|step| step.is_empty() || step.chars().any(|c| c.is_control() || c.is_whitespace()))
        {
            let what =
                format!("'{text}' is no path into a payload; write names between dots, as in customer.email");
            return Err(Error::new(ErrorKind::Config, what));
        }
        Ok(Self { steps })
    }

    /// A path of these steps, whatever is in them.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    pub(crate) fn of(steps: Vec<String>) -> Self {
        Self { steps }
    }

    /// The value at the end of the path, if it leads anywhere.
    pub fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.steps.iter().try_fold(value, |value, step| match value {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            Value::Object(members) => members.get(step),
            _ => None,
        })
    }
}

impl FromStr for Path {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.steps.join("."))
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Path({self})")
    }
}

/// A message, with its payload read as JSON when somebody first asks for something in it.
#[derive(Debug)]
pub struct View<'m> {
    message: &'m Message,
    json: OnceLock<Result<Value, String>>,
}

impl<'m> View<'m> {
    /// Looks at a message.
    pub fn new(message: &'m Message) -> Self {
        Self { message, json: OnceLock::new() }
    }

    /// The message.
    pub fn message(&self) -> &'m Message {
        self.message
    }

    /// The payload as JSON; an error of kind [`ErrorKind::Invalid`] if it is empty or no JSON.
    pub fn json(&self) -> Result<&Value> {
        let read = || {
            if self.message.payload.is_empty() {
                return Err("the payload is empty, where JSON is needed".to_owned());
            }
            // The words of the parser name line and column, never the text itself.
            serde_json::from_slice(&self.message.payload)
                .map_err(|error| format!("the payload is no JSON, which is needed: {error}"))
        };
        self.json.get_or_init(read).as_ref().map_err(|why| Error::new(ErrorKind::Invalid, why.clone()))
    }

    /// What stands in the payload under a path; nothing if the path leads nowhere or to `null`.
    pub fn find(&self, path: &Path) -> Result<Option<&Value>> {
        Ok(path.find(self.json()?).filter(|value| !value.is_null()))
    }

    /// The same as text: a string as it is, anything else as its JSON.
    pub fn text(&self, path: &Path) -> Result<Option<String>> {
        Ok(self.find(path)?.map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_into_members_and_lists() {
        let message =
            Message::new("a", r#"{"customer": {"email": "a@b"}, "lines": [{"sku": 7}], "none": null}"#);
        let view = View::new(&message);
        let at = |path: &str| view.text(&Path::parse(path).unwrap()).unwrap();
        assert_eq!(at("customer.email").as_deref(), Some("a@b"));
        assert_eq!(at("lines.0.sku").as_deref(), Some("7"));
        assert_eq!(at("lines.0").as_deref(), Some(r#"{"sku":7}"#));
        assert_eq!(
            [at("lines.1"), at("none"), at("customer.email.x"), at("nowhere")],
            [None, None, None, None]
        );
        for wrong in ["", "a..b", ".a", "a.", "a b"] {
            assert_eq!(Path::parse(wrong).unwrap_err().kind(), ErrorKind::Config, "{wrong}");
        }
    }

    #[test]
    fn what_is_no_json_is_told_without_quoting_it() {
        for (payload, why) in [("", "is empty"), ("s3cret", "is no JSON"), ("{\"a\": ", "is no JSON")] {
            let message = Message::new("a", payload);
            let error = View::new(&message).text(&Path::parse("a").unwrap()).unwrap_err();
            assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(why), "{error}");
            assert!(!error.chain().contains("s3cret"));
        }
    }
}

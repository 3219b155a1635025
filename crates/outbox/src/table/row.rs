//! A row of a mapped table to a message. What cannot be one is that row's fault and nobody else's.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::catalog::Layout;
use super::mapping::Origin;
use super::sql::{Cells, cell};
use crate::message::{Message, headers_from_json};
use crate::schema::Field;
use crate::sink::{Cause, code};

/// A row that was claimed.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) key: Option<String>,
    /// As the table counts them; none if it does not.
    pub(crate) attempts: Option<u32>,
    pub(crate) stamp: Option<String>,
    /// It was published before.
    pub(crate) processed: bool,
    /// The message, or why there is none.
    pub(crate) message: Result<Message, Cause>,
}

impl Row {
    /// Reads the cells of `Layout::select`.
    pub(crate) fn read(layout: &Layout, mut cells: Cells) -> Self {
        let payload = cells.get_mut(cell::PAYLOAD).and_then(Option::take);
        let cells: Vec<Option<String>> = cells
            .into_iter()
            .map(|cell| cell.map(|bytes| String::from_utf8(bytes).unwrap_or_else(|error| lossy(&error))))
            .collect();
        let text = |at: usize| cells.get(at).and_then(Option::as_deref);
        let number = |at: usize| text(at).and_then(|text| text.parse::<i64>().ok());
        Self {
            id: text(cell::ID).unwrap_or_default().to_owned(),
            key: text(cell::KEY).map(str::to_owned),
            attempts: number(cell::ATTEMPTS).map(|attempts| u32::try_from(attempts).unwrap_or(0)),
            stamp: text(cell::STAMP).map(str::to_owned),
            processed: text(cell::PROCESSED).is_some(),
            message: message(layout, payload, &cells),
        }
    }
}

fn lossy(error: &std::string::FromUtf8Error) -> String {
    String::from_utf8_lossy(error.as_bytes()).into_owned()
}

fn unfit(what: impl std::fmt::Display) -> Cause {
    Cause::new(code::UNFIT, what)
}

fn message(layout: &Layout, payload: Option<Vec<u8>>, cells: &[Option<String>]) -> Result<Message, Cause> {
    let mapping = &layout.mapping;
    let text = |at: usize| cells.get(at).and_then(Option::as_deref);
    let field = |field: &Field, at: usize| match text(at) {
        Some(text) if !field.path.is_empty() => member(text, field),
        other => Ok(other.map(str::to_owned)),
    };
    let origin = |origin: &Origin, at: usize| match origin {
        Origin::Constant(constant) => Ok(Some(constant.clone())),
        Origin::Field(of) => field(of, at),
    };
    let kind = origin(&mapping.kind, cell::KIND)?.filter(|kind| !kind.is_empty());
    let kind = kind.ok_or_else(|| unfit("the row has no type"))?;
    let payload = match payload {
        Some(bytes) if mapping.payload.path.is_empty() => Some(bytes),
        Some(bytes) => {
            let text = std::str::from_utf8(&bytes).map_err(|_| unfit("the payload is not UTF-8"))?;
            member(text, &mapping.payload)?.map(String::into_bytes)
        }
        None => None,
    };
    let payload = payload
        .ok_or_else(|| unfit(format_args!("the row has no payload ('{}' is null)", mapping.payload)))?;
    let written = text(cell::OCCURRED).and_then(|text| text.parse::<i64>().ok());
    let occurred_at = written.map_or_else(Timestamp::now, |micros| {
        Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH)
    });
    let mut message = Message::known(text(cell::ID).unwrap_or_default(), kind, payload, occurred_at);
    if let Some(content_type) = origin(&mapping.content_type, cell::CONTENT_TYPE)? {
        message = message.content_type(content_type);
    }
    message.key = text(cell::KEY).map(str::to_owned);
    if let Some(of) = &mapping.headers
        && let Some(text) = field(of, cell::HEADERS)?
    {
        let headers = headers_from_json(&text);
        message.headers =
            headers.ok_or_else(|| unfit(format_args!("the headers ('{of}') are no JSON object")))?;
    }
    for (index, (name, of)) in mapping.header_columns.iter().enumerate() {
        if let Some(value) = field(of, cell::FIRST_HEADER + index)? {
            message = message.header(name.clone(), value);
        }
    }
    Ok(message)
}

/// A member of JSON, exactly as it is written there; null and what is missing are nothing.
fn member(text: &str, field: &Field) -> Result<Option<String>, Cause> {
    let wrong = |error: serde_json::Error| {
        unfit(format_args!("'{field}': column '{}' is no JSON object: {error}", field.column))
    };
    let mut raw = text;
    for name in &field.path {
        let members: HashMap<String, &RawValue> = serde_json::from_str(raw).map_err(wrong)?;
        match members.get(name) {
            Some(value) if value.get() != "null" => raw = value.get(),
            _ => return Ok(None),
        }
    }
    if field.unquoted && raw.starts_with('"') {
        return serde_json::from_str(raw).map(Some).map_err(wrong);
    }
    Ok(Some(raw.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_comes_as_it_is_written() {
        let text = r#"{"Headers":{"cap-msg-id":"7","n":null},"Value": {"b":1.10, "a":"x"}}"#;
        let of = |field: &str| member(text, &Field::parse(field).unwrap());
        assert_eq!(of("Content->Value").unwrap().unwrap(), r#"{"b":1.10, "a":"x"}"#);
        assert_eq!(of("Content->Headers->>cap-msg-id").unwrap().unwrap(), "7");
        assert_eq!(of("Content->Headers->cap-msg-id").unwrap().unwrap(), "\"7\"");
        assert_eq!(of("Content->Headers->>n").unwrap(), None);
        assert_eq!(of("Content->Other->x").unwrap(), None);
        let error = member("not json", &Field::parse("Content->Value").unwrap()).unwrap_err();
        assert_eq!(error.code, code::UNFIT);
        assert!(error.detail.contains("column 'Content' is no JSON object"), "{}", error.detail);
    }
}

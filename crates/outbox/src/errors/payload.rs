//! Payloads in columns that hold text or JSON. Whatever arrives must be kept, and come back byte for byte if it can.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value;

/// What is no text is marked as such.
const MARK: &str = "outboxd:base64:";

/// For a text column.
pub(crate) fn as_text(payload: &[u8]) -> String {
    match std::str::from_utf8(payload) {
        Ok(text) if !text.contains('\0') && !text.starts_with(MARK) => text.to_owned(),
        _ => format!("{MARK}{}", STANDARD.encode(payload)),
    }
}

/// For a JSON column: as it is, or as a string that is marked. No database takes the escape of a NUL in JSON.
pub(crate) fn as_json(payload: &[u8]) -> String {
    let text = std::str::from_utf8(payload).ok().filter(|text| !text.contains("\\u0000"));
    let is_json = |text: &&str| {
        serde_json::from_str::<Value>(text)
            .is_ok_and(|value| value.as_str().is_none_or(|text| !text.starts_with(MARK)))
    };
    match text.filter(is_json) {
        Some(text) => text.to_owned(),
        None => Value::from(format!("{MARK}{}", STANDARD.encode(payload))).to_string(),
    }
}

/// What such a column holds.
pub(super) fn read(cell: Vec<u8>) -> Bytes {
    let text = std::str::from_utf8(&cell).ok().map(|text| text.trim_matches('"'));
    let coded = text.and_then(|text| text.strip_prefix(MARK));
    match coded.and_then(|coded| STANDARD.decode(coded).ok()) {
        Some(bytes) => bytes.into(),
        None => cell.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_arrives_comes_back() {
        for payload in [
            &b""[..],
            b"text",
            b"\xff\xfe",
            b"a\0b",
            b"outboxd:base64:",
            b"{\"a\": 1}",
            b"\"json\"",
            b"\"a\\u0000b\"",
        ] {
            assert_eq!(read(as_text(payload).into_bytes()), payload);
            let json = as_json(payload);
            serde_json::from_str::<Value>(&json).unwrap();
            assert_eq!(read(json.into_bytes()), payload);
        }
    }
}

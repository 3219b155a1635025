//! The bytes of a case, cut into parts: a part ends with the byte 0x1e, which no text needs.

use outbox::Message;

const END: u8 = 0x1e;

pub struct Input<'i>(&'i [u8]);

impl<'i> Input<'i> {
    pub fn new(data: &'i [u8]) -> Self {
        Self(data)
    }

    /// The next part; none if nothing is left.
    pub fn part(&mut self) -> Option<&'i [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let end = self.0.iter().position(|byte| *byte == END).unwrap_or(self.0.len());
        let (part, rest) = (&self.0[..end], &self.0[(end + 1).min(self.0.len())..]);
        self.0 = rest;
        Some(part)
    }

    /// The next part as text, whatever it takes.
    pub fn text(&mut self) -> String {
        String::from_utf8_lossy(self.part().unwrap_or_default()).into_owned()
    }

    /// All that is left.
    pub fn rest(self) -> &'i [u8] {
        self.0
    }

    /// Id, type, key, content type, payload, and headers until the end.
    pub fn message(mut self) -> Message {
        let (id, kind, key, content_type) = (self.text(), self.text(), self.text(), self.text());
        let payload = self.part().unwrap_or_default().to_vec();
        let mut message = Message::new(kind, payload).id(id).content_type(content_type);
        message = message.occurred_at("2026-01-31T12:00:00.123456Z".parse().expect("a time"));
        message.key = Some(key).filter(|key| !key.is_empty());
        while let Some(name) = self.part() {
            message.headers.insert(String::from_utf8_lossy(name).into_owned(), self.text());
        }
        message
    }
}

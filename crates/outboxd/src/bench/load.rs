//! What is carried: messages that a number and a seed decide, the same in every run and in every place.

use uuid::Uuid;

/// The type of every message.
pub(super) const TYPE: &str = "order.created";

/// A multiplier that spreads numbers over the keys. Databases compute the same: it stays within 64 bits for more messages
/// than anybody measures with.
const SPREAD: u64 = 2_654_435_761;

/// How many messages, of what size, over how many keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) messages: u64,
    pub(super) size: usize,
    pub(super) keys: u64,
    pub(super) seed: u32,
}

impl Load {
    /// The same with another number of messages.
    pub(super) fn of(self, messages: u64) -> Self {
        Self { messages, ..self }
    }

    /// The key of a message.
    pub(super) fn key(self, number: u64) -> String {
        format!("k{}", (number * SPREAD + u64::from(self.seed)) % (1 << 32) % self.keys)
    }

    /// The same as an expression of SQL, over a column `n`.
    pub(super) fn key_sql(self) -> String {
        format!("'k' || ((n * {SPREAD} + {}) % {} % {})", self.seed, 1_u64 << 32, self.keys)
    }

    /// The payload of a message: its number, and what makes it as long as it should be.
    pub(super) fn payload(self, number: u64) -> Vec<u8> {
        let head = format!("{{\"n\":{number},\"pad\":\"");
        let pad = self.size.saturating_sub(head.len() + 2);
        let mut payload = Vec::with_capacity(self.size);
        payload.extend_from_slice(head.as_bytes());
        payload.resize(head.len() + pad, b'x');
        payload.extend_from_slice(b"\"}");
        payload
    }

    /// About the same as an expression of SQL, over a column `n`; `pad` is an expression that repeats a letter so often.
    pub(super) fn payload_sql(self, repeat: impl Fn(usize) -> String) -> String {
        format!("'{{\"n\":' || n || ',\"pad\":\"' || {} || '\"}}'", repeat(self.size.saturating_sub(22)))
    }
}

/// The number in a payload of ours, wherever it stands in these bytes.
pub(super) fn number_in(payload: &[u8]) -> Option<u64> {
    let at = payload.windows(4).position(|part| part == b"\"n\":")? + 4;
    let digits = payload[at..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(None, |number: Option<u64>, digit| {
        number.unwrap_or(0).checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

/// A name for a thing of ours on a server of somebody else.
pub(super) fn own_name() -> String {
    format!("outboxd-bench-{}", &Uuid::new_v4().simple().to_string()[..12])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Load = Load { messages: 10, size: 100, keys: 7, seed: 3 };

    #[test]
    fn a_payload_has_its_size_and_its_number() {
        for number in [0, 9, 12_345_678] {
            let payload = LOAD.payload(number);
            assert_eq!((payload.len(), number_in(&payload)), (100, Some(number)));
            assert!(serde_json::from_slice::<serde_json::Value>(&payload).is_ok());
        }
        assert_eq!(number_in(b"{}"), None);
        assert_eq!(number_in(b"{\"n\":x"), None);
    }

    #[test]
    fn every_key_is_used_and_no_other() {
        let keys: std::collections::BTreeSet<String> = (0..1_000).map(|number| LOAD.key(number)).collect();
        assert_eq!(keys.len(), 7);
        assert_ne!(LOAD.key(1), Load { seed: 4, ..LOAD }.key(1));
    }
}

//! The ids of a run. Everything that the checker must know of a message is in its id, so that nothing has to be kept
//! by id: who wrote it, its key, and its number among all that this producer has written.

use uuid::Uuid;

/// One message of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Tag {
    /// Who wrote it.
    pub(super) producer: u8,
    /// Its key; 0 is none.
    pub(super) key: u16,
    /// Counts what this producer has written, so within a key it only grows.
    pub(super) number: u32,
}

/// A run: its messages are told from those of any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run(u64);

const RUN_BITS: u64 = (1 << 48) - 1;
/// Version 8 and the variant of RFC 9562: a UUID whose other bits mean what we say.
const FORM: u128 = (8 << 76) | (2 << 62);

impl Run {
    pub(super) fn new(number: u64) -> Self {
        Self(number & RUN_BITS)
    }

    /// A short name, for what must not be anybody else's.
    pub(super) fn name(self) -> String {
        format!("{:012x}", self.0)
    }

    pub(super) fn id(self, tag: Tag) -> Uuid {
        let Tag { producer, key, number } = tag;
        let bits = u128::from(self.0) << 80;
        Uuid::from_u128(bits | FORM | u128::from(producer) << 64 | u128::from(key) << 46 | u128::from(number))
    }

    /// The message of an id, if it is one of this run.
    pub(super) fn tag(self, id: &str) -> Option<Tag> {
        let bits = Uuid::try_parse(id).ok()?.as_u128();
        let tag = Tag { producer: (bits >> 64) as u8, key: (bits >> 46) as u16, number: bits as u32 };
        (self.id(tag).as_u128() == bits).then_some(tag)
    }

    /// What the message says: its id, and more or less besides. It has no other content than this.
    pub(super) fn payload(self, tag: Tag) -> String {
        let filler = "x".repeat(tag.number as usize * 37 % 300);
        format!("{{\"verify\":\"{}\",\"filler\":\"{filler}\"}}", self.id(tag))
    }
}

/// The key as text.
pub(super) fn key(tag: Tag) -> Option<String> {
    (tag.key > 0).then(|| format!("{}-{}", tag.producer, tag.key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_message_and_no_other_runs() {
        let (run, other) = (Run::new(u64::MAX), Run::new(7));
        for (producer, key, number) in [(0, 0, 0), (255, u16::MAX, u32::MAX), (3, 41, 1_000_000)] {
            let tag = Tag { producer, key, number };
            let id = run.id(tag);
            assert_eq!((id.get_version_num(), id.get_variant()), (8, uuid::Variant::RFC4122));
            assert_eq!(run.tag(&id.to_string()), Some(tag));
            assert_eq!(other.tag(&id.to_string()), None);
            assert!(serde_json::from_str::<serde_json::Value>(&run.payload(tag)).is_ok());
        }
        assert_eq!(run.tag("no uuid"), None);
        assert_eq!(run.tag(&Uuid::nil().to_string()), None);
    }
}

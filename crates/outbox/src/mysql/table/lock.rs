//! The names of our locks. A user lock belongs to the whole server, so database and table are in its name; it has 64
//! characters at most, and its case does not count.

/// A table, as the names of its locks have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place(String);

impl Place {
    pub(super) fn new(database: &str, table: &str) -> Self {
        // The readable part is for whoever looks at the locks; the number tells the tables apart.
        let readable: String = table
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .take(18)
            .collect::<String>()
            .to_ascii_lowercase();
        Self(format!(
            "outboxd.{readable}.{:016x}",
            fnv(&[database.as_bytes(), b"\0", table.as_bytes()].concat())
        ))
    }

    /// Whose a lane is.
    pub(super) fn lane(&self, lane: u32) -> String {
        format!("{}.{lane}", self.0)
    }

    /// A place in the gate of a lane, for one open claim.
    pub(super) fn gate(&self, lane: u32, slot: usize) -> String {
        format!("{}.{lane}.g{slot}", self.0)
    }

    /// A relay that reads the table.
    pub(super) fn member(&self, slot: usize) -> String {
        format!("{}.m{slot}", self.0)
    }

    /// A bit of the number of lanes in which that relay splits it.
    pub(super) fn lanes_bit(&self, slot: usize, bit: usize) -> String {
        format!("{}.m{slot}.{bit}", self.0)
    }
}

/// The lock of a number that a person chose.
pub(super) fn chosen(number: i64) -> String {
    format!("outboxd-{number}")
}

/// A lock that one session has and no other ever had.
pub(super) fn session(owner: &str) -> String {
    let fits = |c: &char| c.is_ascii_alphanumeric() || "_.-".contains(*c);
    let owner: String = owner.chars().filter(fits).take(22).collect();
    format!("outboxd.{owner}.{}", uuid::Uuid::new_v4().simple())
}

/// FNV-1a: the same in every version of this program.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_into_a_lock_and_into_quotes_and_is_one_tables_own() {
        let place = Place::new("it's `a` database", &"Événements_OutboxMessages".repeat(3));
        let session = session(&"häns'l@host-7.".repeat(9));
        for name in [
            place.lane(255),
            place.gate(255, 127),
            place.lanes_bit(63, 8),
            place.member(63),
            session,
            chosen(i64::MIN),
        ] {
            assert!(name.len() <= 64, "{name}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c)), "{name}");
        }
        assert_ne!(Place::new("a", "Outbox"), Place::new("a", "outbox"));
        assert_ne!(Place::new("a", "b"), Place::new("ab", ""));
        assert_eq!(fnv(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}

//! What the catalogue of a database says of a table.

use std::collections::BTreeSet;

/// What a column holds, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Text; of so many characters at most.
    Text(Option<u32>),
    /// JSON that the database checks.
    Json,
    /// Bytes.
    Bytes,
    /// A UUID.
    Uuid,
    /// A whole number.
    Integer,
    /// True or false.
    Bool,
    /// One of these words.
    Enum(Vec<String>),
    /// A time; with its zone, or understood as UTC.
    Time {
        /// Whether it knows its zone.
        zoned: bool,
    },
    /// Anything else.
    Other,
}

/// A column as the catalogue has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: Type,
    /// The type's own name, for casts and for messages.
    pub type_name: String,
    /// Whether it may be null.
    pub nullable: bool,
    /// Whether an insert may leave it out.
    pub optional: bool,
    /// Whether a unique index has it as its only column.
    pub unique: bool,
}

/// The columns of a unique index that holds for every row.
pub(crate) type Unique = BTreeSet<String>;

//! Bring your own table: an outbox that somebody else made, mapped by configuration.
//!
//! A [`Draft`] is a mapping as it is written; checked, it is a [`Mapping`]. The backends (`postgres::Table`,
//! `mysql::Table`) check it against the catalogue and read it as a [`Source`](crate::Source).

mod condition;
mod draft;
mod mapping;
mod name;
mod preset;
mod written;

pub use condition::{Assignment, Condition, Operator, Value, parse_assignments};
pub use draft::{Draft, Flaw, STAMP_TIMEOUT};
pub use mapping::{ClaimBy, Done, Mapping, Origin, Processed, Tables};
pub use name::{Dialect, Field, NAME_HELP, Name, TableName};
pub use preset::{Preset, preset, presets};

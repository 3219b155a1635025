//! Bring your own table: an outbox that somebody else made, mapped by configuration.
//!
//! A [`Draft`] is a mapping as it is written; checked, it is a [`Mapping`]. The backends (`postgres::Table`,
//! `mysql::Table`) check it against the catalogue and read it as a [`Source`](crate::Source).

mod aside;
mod catalog;
mod check;
mod claim_sql;
mod condition;
pub(crate) mod desk;
mod desk_sql;
mod draft;
pub(crate) mod driver;
mod fit;
pub(crate) mod keep;
mod keep_sql;
pub(crate) mod look;
mod mapping;
mod memory;
mod parser;
mod preset;
mod row;
mod settle;
mod settle_sql;
pub(crate) mod source;
pub(crate) mod sql;
mod suggest;
pub(crate) mod touched;
mod written;

pub use crate::schema::{Column, Dialect, Field, NAME_HELP, Name, TableName, Type};
pub use catalog::Layout;
pub use condition::{Assignment, Condition, Operator, Value, parse_assignments};
pub use draft::{Draft, Flaw, STAMP_TIMEOUT};
pub use mapping::{ClaimBy, Done, Mapping, Origin, Processed, Tables};
pub use preset::{Preset, preset, presets};
pub use source::Reading;
#[cfg(feature = "postgres")]
pub(crate) use suggest::is_status;
pub use suggest::{Seen, Suggestion, suggest};

//! Bring your own table: an outbox that somebody else made, mapped by configuration.
//!
//! A [`Draft`] is a mapping as it is written; checked, it is a [`Mapping`]. The backends (`postgres::Table`,
//! `mysql::Table`) check it against the catalogue and read it as a [`Source`](crate::Source).

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod aside;
mod catalog;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod claim_sql;
mod condition;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) mod desk;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod desk_sql;
mod draft;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) mod driver;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) mod look;
mod mapping;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod memory;
mod name;
mod preset;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod row;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod settle;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod settle_sql;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) mod source;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) mod sql;
mod suggest;
mod written;

pub use catalog::{Column, Layout, Type};
pub use condition::{Assignment, Condition, Operator, Value, parse_assignments};
pub use draft::{Draft, Flaw, STAMP_TIMEOUT};
pub use mapping::{ClaimBy, Done, Mapping, Origin, Processed, Tables};
pub use name::{Dialect, Field, NAME_HELP, Name, TableName};
pub use preset::{Preset, preset, presets};
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub use source::Reading;
#[cfg(feature = "postgres")]
pub(crate) use suggest::is_status;
pub use suggest::{Seen, Suggestion, suggest};

//! Tables that somebody else made: their names and their columns.

mod column;
mod name;

pub(crate) use column::Unique;
pub use column::{Column, Type};
pub use name::{Dialect, Field, NAME_HELP, Name, TableName};

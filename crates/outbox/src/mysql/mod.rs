//! Tables that exist already, in MariaDB (10.6 and later) and MySQL (8.0 and later).
//!
//! There is no log here: an application keeps the table it has, and [`Table`] reads it by a
//! [`Mapping`](crate::table::Mapping).

mod connect;
mod error;
mod table;

pub use table::Table;

//! Tables that exist already, and the inbox, in MariaDB (10.6 and later) and MySQL (8.0 and later).
//!
//! There is no log here: an application keeps the table it has, and [`Table`] reads it by a
//! [`Mapping`](crate::table::Mapping).

mod clock;
mod connect;
mod error;
mod inbox;
mod migrate;
mod sheet;
mod statements;
mod table;

pub use clock::examine_clock;
pub use connect::connect;
pub use inbox::Inbox;
pub use migrate::{migrate, migrations, script};
pub use sheet::{audit, beats, error_log, mapped_error_log, pauses};
pub use statements::examine_statements;
pub use table::Table;

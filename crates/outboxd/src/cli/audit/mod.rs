//! Who did what, for people and scripts.

pub mod args;

mod list;

pub use list::list;

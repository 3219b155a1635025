//! A file or a pipe: one CloudEvent in JSON a line.

mod sink;

pub use sink::Lines;

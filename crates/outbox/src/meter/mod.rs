//! Figures as a handler: counters, gauges and histograms with labels from the message.
//!
//! They go to the facade `metrics`, and from there to whatever recorder the program has installed. `sink.rs` updates,
//! `reading.rs` reads a figure from a message, `series.rs` bounds how many there can be.

mod config;
mod reading;
mod series;
mod sink;

pub use config::{Meter, MeterConfig, MeterKind};
pub use sink::Meters;

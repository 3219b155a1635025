//! How durations and rates are read from requests: in the words of the flags.

use std::time::Duration;

use outbox::letters::Pace;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::quantity::{parse_duration, parse_rate};

/// A duration, as in `2h`.
pub fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    read(from, parse_duration)
}

/// A rate, as in `50/s`.
pub fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Pace>, D::Error> {
    read(from, parse_rate)
}

fn read<'de, D: Deserializer<'de>, T>(
    from: D,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| parse(&text).map_err(D::Error::custom)).transpose()
}

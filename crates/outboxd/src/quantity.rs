//! Durations and sizes as people write them: `"500ms"`, `"30d"`, `"1MiB"`. One grammar for the
//! configuration and for the flags.

use std::time::Duration;

use outbox::letters::Pace;

const DURATIONS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

const SIZES: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// A whole number with a unit from `ms`, `s`, `m`, `h`, `d`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    parse(text, &DURATIONS).map(Duration::from_millis).ok_or_else(|| {
        "a duration is a whole number with a unit: \"500ms\", \"5s\", \"1m\", \"2h\", \"30d\"".to_owned()
    })
}

/// A whole number with a unit from `B`, `KiB`, `MiB`, `GiB`.
pub fn parse_size(text: &str) -> Result<usize, String> {
    parse(text, &SIZES).and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| {
        "a size is a whole number with a unit: \"512B\", \"64KiB\", \"1MiB\", \"1GiB\"".to_owned()
    })
}

/// A whole number per second, minute or hour: `50/s`, `10/m`, `100/h`.
pub fn parse_rate(text: &str) -> Result<Pace, String> {
    let wrong = || "a rate is a whole number per s, m or h: \"50/s\", \"10/m\"".to_owned();
    let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
    let seconds = match unit.trim() {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err(wrong()),
    };
    let count = count.trim().parse::<u32>().ok().filter(|count| *count > 0).ok_or_else(wrong)?;
    Ok(Pace::new(count, Duration::from_secs(seconds)))
}

fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let factor = units.iter().find(|(name, _)| *name == unit.trim_start())?.1;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The duration in the largest unit that gives a whole number.
pub fn show_duration(duration: Duration) -> String {
    show(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), &DURATIONS)
}

/// The size in the largest unit that gives a whole number.
pub fn show_size(bytes: usize) -> String {
    show(bytes as u64, &SIZES)
}

fn show(value: u64, units: &[(&str, u64)]) -> String {
    let largest = units.iter().rev().find(|(_, factor)| value > 0 && value.is_multiple_of(*factor));
    let (unit, factor) = largest.unwrap_or(&units[0]);
    format!("{}{unit}", value / factor)
}

/// An age for a table: two digits or so, with one unit.
pub fn show_age(seconds: f64) -> String {
    match seconds {
        s if s < 0.0 => "0s".to_owned(),
        s if s < 10.0 => format!("{s:.1}s"),
        s if s < 120.0 => format!("{s:.0}s"),
        s if s < 7_200.0 => format!("{:.0}m", s / 60.0),
        s if s < 172_800.0 => format!("{:.0}h", s / 3_600.0),
        s => format!("{:.0}d", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_read_again() {
        for text in ["500ms", "5s", "1m", "90s", "2h", "30d"] {
            assert_eq!(show_duration(parse_duration(text).expect(text)), text);
        }
        for text in ["512B", "64KiB", "1MiB", "3GiB"] {
            assert_eq!(show_size(parse_size(text).expect(text)), text);
        }
        assert_eq!(show_duration(Duration::ZERO), "0ms");
    }

    #[test]
    fn a_number_without_unit_or_with_a_foreign_one_is_refused() {
        for text in ["", "5", "s", "5 weeks", "1.5s", "-1s", "5S", "99999999999999999999d", "1MB"] {
            assert!(parse_duration(text).is_err(), "{text}");
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}

//! The kinds of values: durations, sizes, numbers, words, lists.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;

use super::{Section, join};
use crate::mistake::{At, did_you_mean, start};
use crate::quantity::{parse_duration, parse_size, show_duration, show_size};

impl Section<'_> {
    /// A duration within limits.
    pub fn duration(&self, key: &'static str, limits: RangeInclusive<Duration>, into: &mut Duration) {
        let Some(text) = self.text(key) else { return };
        if let Some(value) = self.check_duration(key, &text.value, &limits) {
            *into = value;
        }
    }

    /// A duration within limits, or the word `never`.
    pub fn duration_or_never(
        &self,
        key: &'static str,
        limits: RangeInclusive<Duration>,
        into: &mut Option<Duration>,
    ) {
        let Some(text) = self.text(key) else { return };
        if text.value == "never" {
            *into = None;
        } else if let Some(value) = self.check_duration(key, &text.value, &limits) {
            *into = Some(value);
        }
    }

    fn check_duration(&self, key: &str, text: &str, limits: &RangeInclusive<Duration>) -> Option<Duration> {
        match parse_duration(text) {
            Ok(value) if limits.contains(&value) => return Some(value),
            Ok(_) => {
                let (least, most) = (show_duration(*limits.start()), show_duration(*limits.end()));
                self.note(key, "is out of range", format!("choose from {least} to {most}"));
            }
            Err(rule) => self.note(key, "is no duration", rule),
        }
        None
    }

    /// A size in bytes within limits.
    pub fn size(&self, key: &'static str, limits: RangeInclusive<usize>, into: &mut usize) {
        let Some(text) = self.text(key) else { return };
        match parse_size(&text.value) {
            Ok(value) if limits.contains(&value) => *into = value,
            Ok(_) => {
                let (least, most) = (show_size(*limits.start()), show_size(*limits.end()));
                self.note(key, "is out of range", format!("choose from {least} to {most}"));
            }
            Err(rule) => self.note(key, "is no size", rule),
        }
    }

    /// A whole number within limits.
    pub fn count(&self, key: &'static str, limits: RangeInclusive<u32>, into: &mut u32) {
        let Some(value) = self.entry(key) else { return };
        let help = format!("choose from {} to {}", limits.start(), limits.end());
        let DeValue::Integer(number) = value.get_ref() else {
            return self.note_type(key, value.get_ref(), "a whole number", &help);
        };
        match u32::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) if limits.contains(&number) => *into = number,
            _ => self.note(key, "is out of range", help),
        }
    }

    /// A whole number of 64 bits, also a negative one.
    pub fn integer(&self, key: &'static str) -> Option<i64> {
        let value = self.entry(key)?;
        let help = "write a number of 64 bits, without quotes";
        let DeValue::Integer(number) = value.get_ref() else {
            self.note_type(key, value.get_ref(), "a whole number", help);
            return None;
        };
        let read = i64::from_str_radix(number.as_str(), number.radix());
        if read.is_err() {
            self.note(key, "is out of range", help);
        }
        read.ok()
    }

    /// A part of the whole, from 0 to 1.
    pub fn part(&self, key: &'static str, into: &mut f64) {
        let Some(value) = self.entry(key) else { return };
        let help = "choose from 0.0 (none) to 1.0 (all), without quotes";
        match number(value.get_ref()) {
            Some(part) if (0.0..=1.0).contains(&part) => *into = part,
            Some(_) => self.note(key, "is out of range", help),
            None => self.note_type(key, value.get_ref(), "a number", help),
        }
    }

    /// `true` or `false`.
    pub fn flag(&self, key: &'static str, into: &mut bool) {
        let Some(value) = self.entry(key) else { return };
        match value.get_ref() {
            DeValue::Boolean(flag) => *into = *flag,
            other => self.note_type(key, other, "true or false", "write it without quotes"),
        }
    }

    /// One of several words.
    pub fn choice<T: Copy>(&self, key: &'static str, words: &[(&'static str, T)], into: &mut T) {
        let Some(text) = self.text(key) else { return };
        match words.iter().find(|(word, _)| *word == text.value) {
            Some((_, value)) => *into = *value,
            None => {
                let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                let rule = format!("must be one of: {}", known.join(", "));
                let help = did_you_mean(&text.value, known);
                self.note(key, rule, help);
            }
        }
    }

    /// A list of strings.
    pub fn texts(&self, key: &'static str) -> Vec<At<String>> {
        let Some(value) = self.entry(key) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            self.note_type(key, value.get_ref(), "a list of strings", "write it as [\"…\", \"…\"]");
            return Vec::new();
        };
        items.iter().filter_map(|item| self.expand(key, item)).collect()
    }

    /// A string, or a list of at least one.
    pub fn one_or_more(&self, key: &'static str) -> Vec<At<String>> {
        match self.entry(key).map(Spanned::get_ref) {
            Some(DeValue::Array(items)) if items.is_empty() => {
                self.note(key, "is an empty list", "name at least one, or remove the key");
                Vec::new()
            }
            Some(DeValue::Array(_)) => self.texts(key),
            _ => self.text(key).into_iter().collect(),
        }
    }

    /// A list of durations within limits.
    pub fn durations(&self, key: &'static str, limits: &RangeInclusive<Duration>) -> Vec<Duration> {
        let texts = self.texts(key).into_iter();
        texts.filter_map(|text| self.check_duration(key, &text.value, limits)).collect()
    }

    /// A list of numbers, also with a fraction.
    pub fn numbers(&self, key: &'static str) -> Vec<f64> {
        let Some(value) = self.entry(key) else { return Vec::new() };
        let help = "write it as [0.1, 1, 10]";
        let DeValue::Array(items) = value.get_ref() else {
            self.note_type(key, value.get_ref(), "a list of numbers", help);
            return Vec::new();
        };
        let mut numbers = Vec::new();
        for item in items.iter() {
            match number(item.get_ref()) {
                Some(number) => numbers.push(number),
                None => {
                    let what = format!("{}: must be a list of numbers", join(&self.path, key));
                    self.reader.mistakes.note(start(item.span()), what, help);
                }
            }
        }
        numbers
    }
}

/// A number, also with a fraction.
fn number(value: &DeValue<'_>) -> Option<f64> {
    let number = match value {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse::<f64>().ok(),
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}

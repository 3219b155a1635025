//! How many different sets of label values there can be: a bound, because whoever writes messages chooses them.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use super::config::Meter;

/// What stands for every value beyond the bound.
const OTHER: &str = "other";

/// The label values that one meter has had.
#[derive(Debug, Default)]
pub(super) struct Series {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    sets: HashSet<Vec<String>>,
    told: bool,
}

impl Series {
    /// The values as they are, or `other` for those that the message decides, when there are `most` already.
    pub(super) fn admit(&self, meter: &Meter, most: usize, values: Vec<String>) -> Vec<String> {
        if values.is_empty() {
            return values;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.sets.contains(&values) {
            return values;
        }
        if known.sets.len() < most {
            known.sets.insert(values.clone());
            return values;
        }
        if !known.told {
            known.told = true;
            tracing::warn!(
                metric = meter.name,
                most,
                "a metric has too many different label values; further ones are counted as 'other'"
            );
        }
        let templates = meter.labels.iter().map(|(_, template)| template);
        let is_fixed = templates.map(|template| template.as_text().is_some());
        values
            .into_iter()
            .zip(is_fixed)
            .map(|(value, fixed)| if fixed { value } else { OTHER.to_owned() })
            .collect()
    }
}

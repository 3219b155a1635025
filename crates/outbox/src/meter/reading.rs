//! A figure read from a message: the number, and the values of the labels. Pure.

use super::config::{Meter, MeterKind};
use crate::sink::{Cause, Outcome, code};
use crate::view::View;

/// The longest value of a label; what is longer is cut.
const LONGEST: usize = 128;

/// Beyond this a number of a payload no longer tells whole numbers apart.
const MOST: f64 = 9_007_199_254_740_992.0;

/// What a message says to a meter.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reading {
    pub(super) value: f64,
    /// In the order of the meter's labels.
    pub(super) labels: Vec<String>,
}

impl Reading {
    /// What the message says, or why it says nothing that can be used. What it says is not told: it is payload.
    pub(super) fn new(meter: &Meter, view: &View<'_>) -> Result<Self, Outcome> {
        let name = &meter.name;
        let unfit = |why: String| Outcome::defect(Cause::new(code::UNFIT, format!("metric '{name}', {why}")));
        let value = match &meter.value {
            None => 1.0,
            Some(template) => {
                let text =
                    template.render_view(view).map_err(|error| unfit(format!("value: {}", error.chain())))?;
                let value = text.trim().parse().ok().filter(|value: &f64| value.is_finite());
                value.ok_or_else(|| unfit(format!("value: {template} is no number")))?
            }
        };
        if meter.kind == MeterKind::Counter && !(value >= 0.0 && value.fract() == 0.0 && value <= MOST) {
            return Err(unfit("value: a counter grows by whole numbers from 0".to_owned()));
        }
        let mut labels = Vec::with_capacity(meter.labels.len());
        for (label, template) in &meter.labels {
            let text = template.render_view(view);
            let text = text.map_err(|error| unfit(format!("label '{label}': {}", error.chain())))?;
            labels.push(text.chars().take(LONGEST).collect());
        }
        Ok(Self { value, labels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;
    use crate::template::Template;

    fn read(kind: MeterKind, payload: &str) -> Result<Reading, String> {
        let mut meter = Meter::new(kind, "m");
        meter.value = Some(Template::parse("{payload.n}").unwrap());
        meter.labels = vec![("city".into(), Template::parse("{payload.city|none}").unwrap())];
        let message = Message::new("a", payload.to_owned());
        Reading::new(&meter, &View::new(&message)).map_err(|outcome| match outcome {
            Outcome::Rejected(rejection) if rejection.permanent => rejection.cause.to_string(),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn d9_what_is_no_number_or_missing_is_told_without_quoting_it() {
        use MeterKind::{Counter, Gauge, Histogram};
        assert_eq!(
            read(Histogram, r#"{"n": -1.5}"#).unwrap(),
            Reading { value: -1.5, labels: vec!["none".into()] }
        );
        assert_eq!(read(Counter, r#"{"n": "3", "city": "Ulm"}"#).unwrap().value, 3.0);
        for (kind, payload, told) in [
            (Counter, r#"{"n": -1}"#, "whole numbers"),
            (Counter, r#"{"n": 1.5}"#, "whole numbers"),
            (Counter, r#"{"n": 1e300}"#, "whole numbers"),
            (Gauge, r#"{"n": "canary"}"#, "{payload.n} is no number"),
            (Gauge, r#"{"n": "NaN"}"#, "is no number"),
            (Histogram, r#"{"n": "inf"}"#, "is no number"),
            (Histogram, r#"{"n": true}"#, "is no number"),
            (Histogram, "{}", "no 'n' in its payload"),
            (Histogram, "canary", "is no JSON"),
        ] {
            let why = read(kind, payload).unwrap_err();
            assert!(why.starts_with("UNFIT: metric 'm', value: ") && why.contains(told), "{why}");
            assert!(!why.contains("canary"), "{why}");
        }
        let long = format!(r#"{{"n": 1, "city": "{}"}}"#, "ü".repeat(1_000));
        assert_eq!(read(Gauge, &long).unwrap().labels[0].chars().count(), LONGEST);
    }
}

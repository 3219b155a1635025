//! What a person decides about figures; plain values, checked by [`MeterConfig::check`].

use crate::error::{Error, ErrorKind, Result};
use crate::template::Template;

/// Labels that the exposition of histograms and summaries keeps for itself.
const RESERVED: [&str; 2] = ["le", "quantile"];

/// The figures that are kept of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MeterConfig {
    /// The meters; a message may move several.
    pub meters: Vec<Meter>,
    /// So many different sets of label values a meter may have (1000). Every further one is counted as `other`: each
    /// costs memory here and in whatever collects the figures, for as long as the process runs.
    pub series: usize,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Meter {
    /// What kind it is.
    pub kind: MeterKind,
    /// Its name, as Prometheus takes it: `orders_total`.
    pub name: String,
    /// What it tells, in a sentence.
    pub help: String,
    /// The number: of a counter how much is added (1 unless told), of the others what is measured.
    pub value: Option<Template>,
    /// Labels and their values.
    pub labels: Vec<(String, Template)>,
    /// Which types of messages move it, as in `order.created` or `order.*`; without it all do.
    pub types: Option<String>,
}

/// The kinds of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MeterKind {
    /// A number that only grows.
    Counter,
    /// A number that is now what the last message says.
    Gauge,
    /// How numbers are distributed.
    Histogram,
}

impl MeterKind {
    /// The words for them.
    pub const WORDS: [(&'static str, Self); 3] =
        [("counter", Self::Counter), ("gauge", Self::Gauge), ("histogram", Self::Histogram)];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }
}

impl Meter {
    /// A meter that every message moves, without labels.
    pub fn new(kind: MeterKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into(), help: String::new(), value: None, labels: Vec::new(), types: None }
    }

    /// Whether messages of this type move it.
    pub(super) fn takes(&self, kind: &str) -> bool {
        match self.types.as_deref() {
            None => true,
            Some(pattern) => match pattern.strip_suffix('*') {
                Some(beginning) => kind.starts_with(beginning),
                None => kind == pattern,
            },
        }
    }

    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        if !is_name(name, ":") {
            let rule = "it begins with a letter, '_' or ':' and goes on with those and digits";
            return Err(format!("'{}' is no name of a metric: {rule}", name.escape_default()));
        }
        for (at, (label, _)) in self.labels.iter().enumerate() {
            let shown = label.escape_default();
            if !is_name(label, "") || label.starts_with("__") {
                let rule = "it begins with a letter or one '_' and goes on with letters, digits and '_'";
                return Err(format!("metric '{name}': '{shown}' is no name of a label: {rule}"));
            }
            if RESERVED.contains(&label.as_str()) {
                return Err(format!(
                    "metric '{name}': the label '{shown}' belongs to histograms and summaries"
                ));
            }
            if self.labels[..at].iter().any(|(other, _)| other == label) {
                return Err(format!("metric '{name}': the label '{shown}' is there twice"));
            }
        }
        if self.value.is_none() && self.kind != MeterKind::Counter {
            return Err(format!(
                "metric '{name}': a {} needs a `value`, as in {{payload.amount}}",
                self.kind.as_str()
            ));
        }
        if self.types.as_deref().is_some_and(|pattern| {
            pattern.trim_end_matches('*').contains('*') || pattern.is_empty() || pattern.ends_with("**")
        }) {
            return Err(format!(
                "metric '{name}': in `types` a '*' may stand at the end only, as in order.*"
            ));
        }
        Ok(())
    }
}

impl MeterConfig {
    /// These meters.
    pub fn new(meters: Vec<Meter>) -> Self {
        Self { meters, series: 1_000 }
    }

    /// Says in one sentence what cannot work, if anything.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::new(ErrorKind::Config, what));
        if self.meters.is_empty() {
            return wrong("there is no meter".to_owned());
        }
        if self.series == 0 || self.series > 1_000_000 {
            return wrong("the number of series must be from 1 to 1000000".to_owned());
        }
        for (at, meter) in self.meters.iter().enumerate() {
            if let Err(what) = meter.check() {
                return wrong(what);
            }
            // Several may share a name, for different types; what collects the figures wants them to be alike.
            let names = |meter: &Meter| meter.labels.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
            let namesake = self.meters[..at].iter().find(|other| other.name == meter.name);
            if namesake.is_some_and(|other| other.kind != meter.kind || names(other) != names(meter)) {
                return wrong(format!(
                    "metric '{}' is there twice, with another kind or other labels",
                    meter.name
                ));
            }
        }
        Ok(())
    }
}

/// The grammar of Prometheus; a metric may have colons, a label may not.
fn is_name(text: &str, also: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || also.contains(c);
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_told_at_once() {
        let template = |text: &str| Template::parse(text).unwrap();
        let told = |change: &dyn Fn(&mut MeterConfig)| {
            let mut meter = Meter::new(MeterKind::Counter, "shop:orders_total");
            meter.labels.push(("country".into(), template("{payload.country}")));
            let mut config = MeterConfig::new(vec![meter.clone(), meter]);
            assert!(config.check().is_ok());
            change(&mut config);
            let error = config.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            error.to_string()
        };
        for name in ["", "1st", "orders-total", "orders total", "größe"] {
            assert!(
                told(&|config| config.meters[1].name = name.into()).contains("no name of a metric"),
                "{name}"
            );
        }
        let label = |name: &str| told(&|config| config.meters[1].labels.push((name.into(), template("x"))));
        for name in ["", "a:b", "__name__", "1", "a-b"] {
            assert!(label(name).contains("no name of a label"), "{name}");
        }
        assert!(label("le").contains("histograms"));
        assert!(label("country").contains("twice"));
        assert!(label("city").contains("other labels"));
        assert!(told(&|config| config.meters[1].kind = MeterKind::Gauge).contains("a gauge needs a `value`"));
        for types in ["", "*.created", "a**", "or*er.*"] {
            assert!(
                told(&|config| config.meters[0].types = Some(types.into())).contains("at the end only"),
                "{types}"
            );
        }
        assert!(told(&|config| config.meters.clear()).contains("no meter"));
        assert!(told(&|config| config.series = 0).contains("series"));
    }

    #[test]
    fn a_pattern_names_a_type_or_how_it_begins() {
        let takes = |types: Option<&str>, kind: &str| {
            let mut meter = Meter::new(MeterKind::Counter, "a");
            meter.types = types.map(str::to_owned);
            meter.takes(kind)
        };
        assert!(takes(None, "a") && takes(Some("*"), "a") && takes(Some("order.*"), "order.created"));
        assert!(
            takes(Some("order.created"), "order.created")
                && !takes(Some("order.created"), "order.created.v2")
        );
        assert!(!takes(Some("order.*"), "orders.created") && !takes(Some("order.*"), "order"));
    }
}

//! [`Meters`], the sink: every message moves the meters of its type.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use metrics::{Key, Label, Level, Metadata, SharedString, with_recorder};

use super::config::{Meter, MeterConfig, MeterKind};
use super::reading::Reading;
use super::series::Series;
use crate::error::Result;
use crate::message::Message;
use crate::sink::{Outcome, Sink};
use crate::view::View;

/// Counters, gauges and histograms that messages move.
///
/// | what happens | outcome |
/// | --- | --- |
/// | every meter of its type was moved, or there is none for it | delivered |
/// | a label or a value is missing, a value is no number, no JSON | refused `UNFIT`, and no meter was moved |
///
/// They live in the process: they begin at 0 when it starts, which whatever collects them knows how to take. The recorder
/// is that which the program has installed; without one nothing is kept.
///
/// A meter has a bounded number of different label values, see [`MeterConfig::series`].
#[derive(Debug)]
pub struct Meters {
    config: MeterConfig,
    /// Of each meter.
    series: Vec<Series>,
    described: AtomicBool,
}

impl Meters {
    /// A sink that moves these meters. A malformed configuration is an error of kind [`Config`](crate::ErrorKind::Config).
    pub fn new(config: MeterConfig) -> Result<Self> {
        config.check()?;
        let series = config.meters.iter().map(|_| Series::default()).collect();
        Ok(Self { config, series, described: AtomicBool::new(false) })
    }

    fn measure(&self, message: &Message) -> Outcome {
        let view = View::new(message);
        let mut readings = Vec::new();
        // All are read before one is moved: a message that is refused leaves no trace, and may come again.
        for (meter, series) in self.config.meters.iter().zip(&self.series) {
            if !meter.takes(&message.kind) {
                continue;
            }
            match Reading::new(meter, &view) {
                Ok(reading) => readings.push((meter, series, reading)),
                Err(unfit) => return unfit,
            }
        }
        for (meter, series, reading) in readings {
            let labels = series.admit(meter, self.config.series, reading.labels);
            let labels =
                meter.labels.iter().zip(labels).map(|((name, _), value)| Label::new(name.clone(), value));
            let key = Key::from_parts(meter.name.clone(), labels.collect::<Vec<_>>());
            update(meter.kind, &key, reading.value);
        }
        Outcome::Delivered
    }

    /// Tells the recorder what the figures mean. Not before the first message: by then it is installed.
    fn describe(&self) {
        if self.described.swap(true, Ordering::Relaxed) {
            return;
        }
        for Meter { kind, name, help, .. } in self.config.meters.iter().filter(|meter| !meter.help.is_empty())
        {
            let (name, help) = (name.clone().into(), SharedString::from(help.clone()));
            with_recorder(|recorder| match kind {
                MeterKind::Counter => recorder.describe_counter(name, None, help),
                MeterKind::Gauge => recorder.describe_gauge(name, None, help),
                MeterKind::Histogram => recorder.describe_histogram(name, None, help),
            });
        }
    }
}

fn update(kind: MeterKind, key: &Key, value: f64) {
    let metadata = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));
    with_recorder(|recorder| match kind {
        // Whole and not negative, or else it would have been refused.
        MeterKind::Counter => recorder.register_counter(key, &metadata).increment(value as u64),
        MeterKind::Gauge => recorder.register_gauge(key, &metadata).set(value),
        MeterKind::Histogram => recorder.register_histogram(key, &metadata).record(value),
    });
}

#[async_trait]
impl Sink for Meters {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        self.describe();
        messages.iter().map(|message| self.measure(message)).collect()
    }
}

//! The figures of this process, as Prometheus reads them.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

use super::guard::LOGINS;
use crate::watch::{Family, Fresh, render};

/// The bounds of a histogram that has none of its own: seconds, from a blink to a minute. Alerts ask what took longer
/// than 2 s and than 30 s; without these bounds the answer would be a guess.
const BUCKETS: [f64; 13] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

/// How often what was measured is put into its buckets, when nobody asks.
const UPKEEP: Duration = Duration::from_secs(5);

/// Messages that were published, by publisher and by what became of them.
pub(super) const PUBLISHED: &str = "outboxd_published_total";

/// Which version this is.
const BUILD: &str = "outbox_build_info";

/// What `/metrics` shows.
#[derive(Clone)]
pub struct Figures {
    recorded: PrometheusHandle,
    fresh: Arc<Mutex<Vec<Fresh>>>,
}

impl Figures {
    /// Makes this the place where every figure of the process goes; `buckets` are those of histograms that have their
    /// own. A process has one such place, so that a second call gives the first.
    pub fn install<'b>(buckets: impl IntoIterator<Item = (&'b str, &'b [f64])>) -> anyhow::Result<Self> {
        static INSTALLED: OnceLock<Result<PrometheusHandle, String>> = OnceLock::new();
        let install = || {
            let mut builder = PrometheusBuilder::new().set_buckets(&BUCKETS).context("the buckets")?;
            for (name, bounds) in buckets {
                let whose = Matcher::Full(name.to_owned());
                builder = builder.set_buckets_for_metric(whose, bounds).with_context(|| name.to_owned())?;
            }
            let recorder = builder.build_recorder();
            let handle = recorder.handle();
            metrics::set_global_recorder(recorder).map_err(|_| anyhow!("somebody else records them"))?;
            metrics::describe_counter!(PUBLISHED, "Messages published, by what became of them");
            metrics::describe_counter!(LOGINS, "Sign-ins and sign-outs, by what became of them");
            outbox::figures::describe();
            crate::watch::describe();
            crate::pauses::describe();
            crate::traces::describe();
            metrics::describe_gauge!(BUILD, "The version of this process");
            metrics::gauge!(BUILD, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
            anyhow::Ok(handle)
        };
        let installed = INSTALLED.get_or_init(|| install().map_err(|error| format!("{error:#}")));
        let figures = |recorded| Self { recorded, fresh: Arc::default() };
        installed.clone().map(figures).map_err(|error| anyhow!("cannot record figures: {error}"))
    }

    /// Shows these too, as they are when somebody asks.
    pub fn also(&self, fresh: impl Fn() -> Vec<Family> + Send + Sync + 'static) {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(fresh));
    }

    /// As text.
    pub fn render(&self) -> String {
        let fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        let families: Vec<Family> = fresh.iter().flat_map(|make| make()).collect();
        self.recorded.render() + &render(&families)
    }

    /// Puts what was measured into its buckets, now and then, so that it does not pile up.
    pub async fn upkeep(self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(UPKEEP)).await.is_some() {
            self.recorded.run_upkeep();
        }
    }
}

//! Looks at sources and error tables now and then, and tells the figures how they stand.
//!
//! What a look cannot find out is told as no number, and never as the last one that was known: a chart of an outage must
//! not look calm.

mod beats;
mod fresh;
mod pipes;
mod pools;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::{describe_gauge, gauge};
use outbox::Result;
use outbox::admin::CursorStatus;
use outbox::errors::{ErrorFilter, ErrorLog, Resolution};
use outbox::letters::{DeadLetters, Depth};
use tokio_util::sync::CancellationToken;

use crate::backends::{Databases, letters};
use crate::plan::{Plan, Target};

pub use beats::{Instances, beats};
pub use fresh::{Family, Fresh, render};
pub use pipes::of_pipes;
pub use pools::Pools;

/// How often one looks.
const PAUSE: Duration = Duration::from_secs(10);

/// How long a look may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Counting stops here.
const COUNTED_AT_MOST: u32 = 1_000;

const PENDING: &str = "outbox_pending";
const OLDEST: &str = "outbox_oldest_pending_seconds";
const PARKED: &str = "outbox_parked";
const DEAD: &str = "outbox_dead";
const QUEUE_MESSAGES: &str = "outbox_queue_messages";
const QUEUE_CONSUMERS: &str = "outbox_queue_consumers";
const ERRORS_OPEN: &str = "outbox_errors_open";
const REACHABLE: &str = "outbox_source_reachable";

/// Tells the recorder what the figures are.
pub fn describe() {
    describe_gauge!(PENDING, "Messages that are committed and not done; 10000 means that or more");
    describe_gauge!(
        OLDEST,
        metrics::Unit::Seconds,
        "Age of the oldest message that is not done and not dead"
    );
    describe_gauge!(PARKED, "Messages set aside: waiting for a retry, or behind an earlier one of their key");
    describe_gauge!(DEAD, "Messages set aside until a person decides");
    describe_gauge!(QUEUE_MESSAGES, "Messages in a queue or topic that nobody has dealt with");
    describe_gauge!(QUEUE_CONSUMERS, "Consumers of a queue");
    describe_gauge!(
        ERRORS_OPEN,
        "Errors in an error table that nobody has resolved; 1000 means that or more"
    );
    describe_gauge!(REACHABLE, "Whether the last look at a source got an answer");
}

/// Waits until it is time for the next look; `false` after the stop.
async fn goes_on(stop: &CancellationToken) -> bool {
    stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_some()
}

/// What a look found out, if it got an answer in time.
async fn within<T>(asked: impl Future<Output = Result<T>>) -> Option<T> {
    tokio::time::timeout(LIMIT, asked).await.ok()?.ok()
}

/// How the pipes of an outbox stand, as far as it has told.
#[derive(Debug)]
pub struct Stands {
    source: String,
    seen: BTreeMap<String, Stand>,
}

impl Stands {
    /// Of this source; nothing is known yet.
    pub fn new(source: &str) -> Self {
        Self { source: source.to_owned(), seen: BTreeMap::new() }
    }

    /// A look has found this, or got no answer.
    pub fn tell(&mut self, found: Option<&[CursorStatus]>) {
        reachable(&self.source, Some(found.is_some()));
        self.show(found);
    }

    /// Nobody looks any more: whether the source answers is not known either.
    pub fn tell_end(&mut self) {
        reachable(&self.source, None);
        self.show(None);
    }

    fn show(&mut self, found: Option<&[CursorStatus]>) {
        // What is not told any more, or could not be asked, is unknown.
        self.seen.values_mut().for_each(|stand| *stand = Stand::UNKNOWN);
        for cursor in found.into_iter().flatten() {
            let known = self.seen.remove(&cursor.cursor).filter(|known| !known.pending.is_nan());
            self.seen.insert(cursor.cursor.clone(), known.unwrap_or_default().and(cursor));
        }
        self.seen.iter().for_each(|(pipe, stand)| stand.tell(&self.source, pipe));
    }
}

/// How a pipe stands in its source, over all lanes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Stand {
    pending: f64,
    oldest: f64,
    waiting: f64,
    behind: f64,
    dead: f64,
}

#[allow(clippy::cast_precision_loss, reason = "nobody counts that far")]
impl Stand {
    const UNKNOWN: Self =
        Self { pending: f64::NAN, oldest: f64::NAN, waiting: f64::NAN, behind: f64::NAN, dead: f64::NAN };

    fn and(self, lane: &CursorStatus) -> Self {
        Self {
            pending: self.pending + lane.pending as f64,
            oldest: self.oldest.max(lane.lag_seconds.unwrap_or(0.0)),
            waiting: self.waiting + lane.waiting as f64,
            behind: self.behind + lane.behind as f64,
            dead: self.dead + lane.dead as f64,
        }
    }

    fn tell(&self, source: &str, pipe: &str) {
        let labels = [("source", source.to_owned()), ("pipe", pipe.to_owned())];
        gauge!(PENDING, &labels).set(self.pending);
        gauge!(OLDEST, &labels).set(self.oldest);
        gauge!(DEAD, &labels).set(self.dead);
        for (state, count) in [("waiting", self.waiting), ("behind", self.behind)] {
            let [source, pipe] = labels.clone();
            gauge!(PARKED, &[source, pipe, ("state", state.to_owned())]).set(count);
        }
    }
}

/// Watches the queues or topics of every source on a broker, each by itself.
pub fn queues(plan: &Plan, stop: &CancellationToken) {
    for source in plan.sources.values().filter(|source| source.is_on_broker()) {
        // What is wrong with it, its pipe tells.
        let Some(Ok(letters)) = letters(source) else { continue };
        tokio::spawn(queue(source.name.clone(), letters, stop.clone()));
    }
}

async fn queue(source: String, letters: Box<dyn DeadLetters>, stop: CancellationToken) {
    let mut seen: BTreeMap<String, Depth> = BTreeMap::new();
    loop {
        let found = within(letters.depths()).await;
        reachable(&source, Some(found.is_some()));
        let found: BTreeMap<_, _> =
            found.into_iter().flatten().map(|depth| (depth.place.clone(), depth)).collect();
        seen.extend(found.clone());
        for depth in seen.values() {
            tell_depth(&source, depth, found.contains_key(&depth.place));
        }
        if !goes_on(&stop).await {
            return;
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "nobody counts that far")]
fn tell_depth(source: &str, depth: &Depth, is_known: bool) {
    let known = |number: f64| if is_known { number } else { f64::NAN };
    let labels = [("source", source.to_owned()), ("queue", depth.place.clone())];
    if let Some(consumers) = depth.consumers {
        gauge!(QUEUE_CONSUMERS, &labels).set(known(consumers.into()));
    }
    let [source, queue] = labels;
    let labels = [source, queue, ("kind", depth.role.as_str().to_owned())];
    gauge!(QUEUE_MESSAGES, &labels).set(known(depth.messages as f64));
}

/// Watches every error table.
pub fn errors(plan: &Plan, databases: &Arc<Databases>, stop: &CancellationToken) {
    for sink in plan.sinks.values() {
        let Target::ErrorLog(connection, options) = &sink.target else { continue };
        let (name, connection, options) = (sink.name.clone(), connection.clone(), options.clone());
        let (databases, stop) = (databases.clone(), stop.clone());
        tokio::spawn(async move {
            loop {
                let counted =
                    within(async { count(databases.error_log(&connection, &options).await?).await });
                let open = counted.await.map_or(f64::NAN, f64::from);
                gauge!(ERRORS_OPEN, "sink" => name.clone()).set(open);
                if !goes_on(&stop).await {
                    return;
                }
            }
        });
    }
}

async fn count(log: Arc<dyn ErrorLog>) -> Result<u32> {
    let open =
        ErrorFilter { resolution: Some(Resolution::Open), limit: COUNTED_AT_MOST, ..Default::default() };
    let found = log.list(&open).await?;
    Ok(u32::try_from(found.len()).unwrap_or(COUNTED_AT_MOST))
}

/// Whether a source answers; none if nobody asks it any more.
pub fn reachable(source: &str, is_reachable: Option<bool>) {
    let is = is_reachable.map_or(f64::NAN, |is_reachable| f64::from(u8::from(is_reachable)));
    gauge!(REACHABLE, "source" => source.to_owned()).set(is);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(pending: u64, lag_seconds: Option<f64>) -> CursorStatus {
        CursorStatus {
            cursor: "c".to_owned(),
            lane: 0,
            lanes: 2,
            owner: None,
            lease_until: None,
            pending,
            lag_seconds,
            waiting: 1,
            behind: 2,
            dead: 3,
            delivered: None,
        }
    }

    #[test]
    fn d7_when_nobody_looks_any_more_nothing_is_known() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let shown = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            let mut stands = Stands::new("orders");
            stands.tell(Some(&[lane(5, Some(1.5))]));
            let known = shown.render();
            assert!(known.contains("outbox_source_reachable{source=\"orders\"} 1\n"), "{known}");
            assert!(known.contains("outbox_pending{source=\"orders\",pipe=\"c\"} 5\n"), "{known}");
            stands.tell(None);
            assert!(shown.render().contains("outbox_source_reachable{source=\"orders\"} 0\n"));
            stands.tell_end();
            let unknown = shown.render();
            let values: Vec<_> = unknown.lines().filter(|line| line.contains("{source=")).collect();
            assert!(values.len() == 6 && values.iter().all(|line| line.ends_with(" NaN")), "{unknown}");
        });
    }

    #[test]
    fn lanes_are_told_together() {
        let stand = Stand::default().and(&lane(5, Some(1.5))).and(&lane(7, Some(9.0))).and(&lane(0, None));
        assert_eq!(stand, Stand { pending: 12.0, oldest: 9.0, waiting: 3.0, behind: 6.0, dead: 9.0 });
    }
}

//! Spans on their way to the collector: a queue that never makes anybody wait, and a task that empties it.
//!
//! A collector that is away or slow costs spans, which are counted, and nothing else. It is told when that begins and
//! when it ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::counter;
use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Spans that the collector has taken.
pub(super) const SENT: &str = "outbox_spans_sent_total";
/// Spans that were given up.
pub(super) const DROPPED: &str = "outbox_spans_dropped_total";

/// So many spans wait at most: a few megabytes.
const MOST: usize = 8_192;

/// So many go in one request.
const BATCH: usize = 512;

/// So long the first of a request waits for others.
const PAUSE: Duration = Duration::from_secs(1);

/// How long an end waits for the last ones; less for a collector that did not take the ones before.
const FLUSH: Duration = Duration::from_secs(3);
const FLUSH_AWAY: Duration = Duration::from_millis(500);

/// Where ended spans go.
#[derive(Debug)]
pub(super) struct Queue(Sender<SpanData>);

impl Queue {
    /// A queue, and the task that empties it into the exporter. `place` is the collector, for people.
    pub(super) fn start(exporter: impl SpanExporter + 'static, place: &str) -> (Self, Sending) {
        let (sender, spans) = channel(MOST);
        let (stop, away) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
        let task = Task { exporter, spans, stop: stop.clone(), away: away.clone(), place: place.to_owned() };
        let task = Mutex::new(Some(tokio::spawn(task.work())));
        (Self(sender), Sending { task, stop, away })
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.0.try_send(span).is_err() {
            dropped(1, "full");
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

fn dropped(count: usize, why: &'static str) {
    counter!(DROPPED, "reason" => why).increment(count as u64);
}

/// The task that empties a queue.
pub(super) struct Sending {
    task: Mutex<Option<JoinHandle<()>>>,
    stop: CancellationToken,
    away: Arc<AtomicBool>,
}

impl Sending {
    /// Sends what is left, for a short while; what is left then is given up.
    pub(super) async fn finish(&self) {
        self.stop.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut task) = task else { return };
        let limit = if self.away.load(Ordering::Relaxed) { FLUSH_AWAY } else { FLUSH };
        if tokio::time::timeout(limit, &mut task).await.is_err() {
            task.abort();
            tracing::info!("the last traces were not sent");
        }
    }
}

struct Task<E> {
    exporter: E,
    spans: Receiver<SpanData>,
    stop: CancellationToken,
    away: Arc<AtomicBool>,
    place: String,
}

impl<E: SpanExporter> Task<E> {
    async fn work(mut self) {
        loop {
            let batch = self.next().await;
            if batch.is_empty() {
                return;
            }
            self.send(batch).await;
        }
    }

    /// What goes together: all that come within a pause, or a full request. Nothing is left once it is empty.
    async fn next(&mut self) -> Vec<SpanData> {
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            // After the stop only what is there already.
            () = self.stop.cancelled() => {}
            _ = self.spans.recv_many(&mut batch, BATCH) => {}
        }
        let until = tokio::time::Instant::now() + PAUSE;
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {
                    while batch.len() < BATCH && let Ok(span) = self.spans.try_recv() {
                        batch.push(span);
                    }
                    break;
                }
                () = tokio::time::sleep_until(until) => break,
                taken = self.spans.recv_many(&mut batch, room) => {
                    if taken == 0 {
                        break;
                    }
                }
            }
        }
        batch
    }

    async fn send(&self, batch: Vec<SpanData>) {
        let count = batch.len();
        let result = self.exporter.export(batch).await;
        let was_away = self.away.swap(result.is_err(), Ordering::Relaxed);
        match result {
            Ok(()) => {
                counter!(SENT).increment(count as u64);
                if was_away {
                    tracing::info!(collector = self.place, "the collector takes traces again");
                }
            }
            Err(error) => {
                dropped(count, "failed");
                if !was_away {
                    // What the exporter says names neither URL nor headers, nor what is wrong with a connection.
                    let (error, help) = (error.to_string(), "is it there, and is its certificate trusted?");
                    tracing::warn!(
                        collector = self.place,
                        error,
                        help,
                        "cannot send traces; messages go on without"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{Tracer as _, TracerProvider as _};
    use opentelemetry_sdk::error::OTelSdkError;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tokio::sync::watch;

    use super::*;

    /// A collector that is told what to do.
    #[derive(Debug, Clone)]
    struct Collector {
        taken: watch::Sender<usize>,
        mood: watch::Sender<Mood>,
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Mood {
        Well,
        Hangs,
        Refuses,
    }

    impl Collector {
        fn new(mood: Mood) -> Self {
            Self { taken: watch::Sender::new(0), mood: watch::Sender::new(mood) }
        }
    }

    impl SpanExporter for Collector {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            let mood = *self.mood.subscribe().wait_for(|mood| *mood != Mood::Hangs).await.expect("it lives");
            if mood == Mood::Refuses {
                return Err(OTelSdkError::InternalFailure("refused".to_owned()));
            }
            self.taken.send_modify(|taken| *taken += batch.len());
            Ok(())
        }
    }

    fn make(provider: &SdkTracerProvider, count: usize) {
        let tracer = provider.tracer("test");
        (0..count).for_each(|_| drop(tracer.start("span")));
    }

    fn start(collector: &Collector) -> (SdkTracerProvider, Sending) {
        let (queue, sending) = Queue::start(collector.clone(), "here");
        (SdkTracerProvider::builder().with_span_processor(queue).build(), sending)
    }

    #[tokio::test(start_paused = true)]
    async fn e5_all_that_was_made_before_the_end_is_sent() {
        let collector = Collector::new(Mood::Well);
        let (provider, sending) = start(&collector);
        make(&provider, BATCH * 2 + 3);
        sending.finish().await;
        assert_eq!(*collector.taken.borrow(), BATCH * 2 + 3);
        make(&provider, 1);
        sending.finish().await;
        assert_eq!(*collector.taken.borrow(), BATCH * 2 + 3, "after the end nobody sends");
    }

    #[tokio::test(start_paused = true)]
    async fn e5_a_few_are_sent_after_a_pause() {
        let collector = Collector::new(Mood::Well);
        let (provider, _sending) = start(&collector);
        make(&provider, 2);
        collector.taken.subscribe().wait_for(|taken| *taken == 2).await.expect("it lives");
        make(&provider, 1);
        collector.taken.subscribe().wait_for(|taken| *taken == 3).await.expect("it lives");
    }

    #[tokio::test(start_paused = true)]
    async fn e5_a_collector_that_hangs_costs_spans_and_no_time() {
        let collector = Collector::new(Mood::Hangs);
        let (provider, sending) = start(&collector);
        let begun = tokio::time::Instant::now();
        make(&provider, MOST + 100);
        assert_eq!(begun.elapsed(), Duration::ZERO, "nobody waited");
        sending.finish().await;
        assert_eq!(begun.elapsed(), FLUSH, "the end waits for a short while");
        assert_eq!(*collector.taken.borrow(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn e5_a_collector_that_comes_back_gets_what_is_new() {
        let collector = Collector::new(Mood::Refuses);
        let (provider, sending) = start(&collector);
        make(&provider, 5);
        // Until the first request has failed.
        while !sending.away.load(Ordering::Relaxed) {
            tokio::time::sleep(PAUSE).await;
        }
        collector.mood.send_replace(Mood::Well);
        make(&provider, 7);
        collector.taken.subscribe().wait_for(|taken| *taken == 7).await.expect("it lives");
        assert!(!sending.away.load(Ordering::Relaxed));
    }
}

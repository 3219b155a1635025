//! Spans of deliveries, for a collector of OpenTelemetry.
//!
//! A span is made when a delivery has ended, by a watcher of its pipe, and goes to a queue: a pipe never waits for a
//! collector. What a span says is decided in `span.rs`, without I/O; where a pipe leads to in `route.rs`; `queue.rs`
//! sends. `run` starts it, and lets it send the last ones before it ends.

mod queue;
mod route;
mod span;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use metrics::describe_counter;
use opentelemetry::KeyValue;
use opentelemetry::trace::{Span as _, Tracer as _, TracerProvider as _};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, SpanExporter as _};
use outbox::{Judged, Watch};

use crate::plan::{PipePlan, Plan, TracesPlan};
use crate::trouble::{Exit, Trouble};
use queue::{DROPPED, Queue, SENT, Sending};
use route::Route;

/// How long a collector may take for a request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Tells the recorder what the figures are.
pub fn describe() {
    describe_counter!(SENT, "Spans that the collector has taken");
    describe_counter!(
        DROPPED,
        "Spans that were given up, by reason: the queue was full, the collector did not take them"
    );
}

/// The spans of this process.
pub struct Traces {
    tracer: SdkTracer,
    sample: f64,
    routes: BTreeMap<String, Arc<Route>>,
    sending: Sending,
    /// The tracer only refers to it.
    _provider: SdkTracerProvider,
}

impl Traces {
    /// Begins to send, for these pipes. A collector that is away is no failure; certificates that cannot be read are.
    pub fn start(
        traces: &TracesPlan,
        plan: &Plan,
        pipes: &[&PipePlan],
        owner: &str,
    ) -> Result<Self, Trouble> {
        let resource = Resource::builder()
            .with_service_name(traces.service.clone())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .with_attribute(KeyValue::new("service.instance.id", owner.to_owned()))
            .build();
        let mut exporter = exporter(traces)?;
        exporter.set_resource(&resource);
        let (queue, sending) = Queue::start(exporter, &traces.place);
        // Which spans are made is decided before: the context to go by may be one that a span only links to.
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::AlwaysOn)
            .with_resource(resource)
            .with_span_processor(queue)
            .build();
        let routes = pipes.iter().map(|pipe| (pipe.name.clone(), Arc::new(Route::of(pipe, plan)))).collect();
        let tracer = provider.tracer("outboxd");
        Ok(Self { tracer, sample: traces.sample, routes, sending, _provider: provider })
    }

    /// Who watches the pipe of this name.
    pub fn of_pipe(&self, name: &str) -> Option<PipeTraces> {
        let route = self.routes.get(name)?.clone();
        Some(PipeTraces { tracer: self.tracer.clone(), sample: self.sample, route })
    }

    /// Sends what is left, for a short while.
    pub async fn finish(&self) {
        self.sending.finish().await;
    }
}

/// Whatever is wrong is told without the URL, of which any part may be secret.
fn exporter(traces: &TracesPlan) -> Result<SpanExporter, Trouble> {
    let help = "check [traces] in the configuration";
    let client = outbox::http::client(traces.tls, traces.ca_file.as_deref(), TIMEOUT)
        .map_err(|error| Trouble::new(Exit::Config, format!("cannot trace: {}", error.chain()), help))?;
    // The exporter decodes what is encoded in a value, so what only looks like it has to be encoded.
    let header =
        |(name, value): &(String, crate::secret::Secret)| (name.clone(), value.reveal().replace('%', "%25"));
    SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(TIMEOUT)
        .with_endpoint(traces.endpoint.reveal())
        .with_headers(traces.headers.iter().map(header).collect())
        .build()
        .map_err(|_| Trouble::new(Exit::Config, "cannot trace: the endpoint cannot be used", help))
}

/// Makes the spans of a pipe.
pub struct PipeTraces {
    tracer: SdkTracer,
    sample: f64,
    route: Arc<Route>,
}

impl Watch for PipeTraces {
    fn judged(&self, judged: &Judged<'_>) {
        let written = span::context(&judged.message.headers);
        if !span::is_sampled(written.as_ref(), self.sample, rand::random) {
            return;
        }
        let ended = SystemTime::now();
        let made = span::of(&self.route, judged, written);
        let builder = made.builder.with_start_time(ended.checked_sub(judged.took).unwrap_or(ended));
        let mut span = self.tracer.build_with_context(builder, &made.parent);
        span.set_status(made.status);
        span.end_with_timestamp(ended);
    }
}

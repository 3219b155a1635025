//! The pipes of a plan: both ends are there, and what the pipe says fits what they are.

use std::time::Duration;

use outbox::policy::OnDead;

use super::{Checker, Known, Layout, PipePlan, Places, SinkPlan, SourcePlan, Target};
use crate::config::PipeConfig;
use crate::connection::Kind;
use crate::mistake::Place;
use crate::options::{PipeOptions, SourceOptions};
use crate::quantity::{show_duration, show_size};

/// What a pipe from a broker cannot say, and what to do instead.
const NOT_FROM_BROKERS: [(&str, &str); 9] = [
    ("on_dead", "the broker keeps dead letters apart, and the others of the key go on; remove it"),
    ("lanes", "start more relays, or use more partitions; remove it"),
    ("lease", "the broker itself knows who has which message; remove it"),
    (
        "start",
        "a queue begins with its first message, a new consumer group where 'start' of the source says; remove it",
    ),
    ("attempts", "list the delays in 'retry' of the source; remove it"),
    ("retry", "the broker keeps what waits: write 'retry' in the source"),
    ("retry_first", "list the delays in 'retry' of the source; remove it"),
    ("retry_most", "list the delays in 'retry' of the source; remove it"),
    ("objective", "a broker does not tell how old its oldest message is; remove it"),
];

/// Of a sink that takes messages one by one: so many at a time.
const AT_A_TIME: u32 = 8;

/// Of a sink that takes messages together, in one transaction: so many.
const TOGETHER: u32 = 100;

/// Of Kafka, which takes a batch of a partition in one request: the more, the fewer requests.
const TO_A_TOPIC: u32 = 2_000;

/// From a mapped table, of which no claim is bounded by its bytes.
const TABLE_TO_A_TOPIC: u32 = 1_000;

impl Checker<'_> {
    pub(super) fn pipe(
        &self,
        mut config: PipeConfig,
        sources: &Known<SourcePlan>,
        sinks: &Known<SinkPlan>,
        places: &Places,
    ) -> Option<PipePlan> {
        self.name("pipes", &config.name);
        let whose = format!("pipes.{}", config.name.value);
        // Both are looked up before either ends the check, so that both mistakes are told.
        let source = config.from.as_ref().map(|from| self.find(&whose, "from", from, sources, "source"));
        let sink = config.to.as_ref().map(|to| self.find(&whose, "to", to, sinks, "sink"));
        let (source, sink) = (source??, sink??);
        pace(&mut config, &source.layout, &sink.target);
        let place = places.sources.get(&source.name).copied().unwrap_or(config.place);
        match &source.layout {
            Layout::Log(options) => self.log_pipe(&mut config, source, options, sink, place),
            Layout::Table(options) => self.table_pipe(&mut config, source, &options.mapping, sink, place),
            Layout::Queue(options) => self.broker_pipe(&mut config, source, &options.retry),
            Layout::Topic(options) => self.broker_pipe(&mut config, source, &options.retry),
        }
        self.window(&config, source, sink, places);
        let (from, to) = (source.name.clone(), sink.name.clone());
        Some(PipePlan { name: config.name.value, from, to, options: config.options })
    }

    /// A pipe whose source is a log; `place` is where the limit of its payload was set.
    fn log_pipe(
        &self,
        config: &mut PipeConfig,
        source: &SourcePlan,
        log: &SourceOptions,
        sink: &SinkPlan,
        place: Place,
    ) {
        self.lease(config, sink);
        let Some(max_message) = sink.target.max_message() else { return };
        if log.limits.payload > max_message {
            let (payload, most) = (show_size(log.limits.payload), show_size(max_message));
            let what = format!(
                "sources.{}.max_payload = \"{payload}\": is above max_message = \"{most}\" of sink '{}'",
                source.name, sink.name
            );
            self.mistakes.note(
                place,
                what,
                "lower 'max_payload', or raise 'max_message' if the broker allows it",
            );
        }
    }

    /// A pipe whose source is a queue or a topic, which has its own delays and dead letters.
    fn broker_pipe(&self, config: &mut PipeConfig, source: &SourcePlan, retry: &[Duration]) {
        for (key, help) in NOT_FROM_BROKERS {
            if let Some(place) = config.set(key) {
                let what = format!(
                    "pipes.{}.{key}: has no meaning, because '{}' is on a broker",
                    config.name.value, source.name
                );
                self.mistakes.note(place, what, help);
            }
        }
        let policy = &mut config.options.policy;
        policy.on_dead = OnDead::Skip;
        policy.steps = Some(retry.to_vec());
    }

    /// A claim that ends while its delivery is under way would be made again by somebody else.
    pub(super) fn lease(&self, config: &mut PipeConfig, sink: &SinkPlan) {
        let Some(timeout) = sink.target.timeout() else { return };
        let least = timeout * 2;
        match config.set("lease") {
            None => config.options.lease = config.options.lease.max(least),
            Some(place) if config.options.lease < least => {
                let (lease, timeout) = (show_duration(config.options.lease), show_duration(timeout));
                let what = format!(
                    "pipes.{}.lease = \"{lease}\": is too short for sink '{}' with timeout = \"{timeout}\"",
                    config.name.value, sink.name
                );
                self.mistakes.note(place, what, "the lease must be at least twice the timeout");
            }
            Some(_) => {}
        }
    }
}

/// How many messages go together, and how many deliveries at a time, where the pipe does not say: by what the
/// sink does with them.
fn pace(config: &mut PipeConfig, layout: &Layout, target: &Target) {
    let (batch, concurrency) = match target {
        Target::Http(_) | Target::Mail(..) => (1, AT_A_TIME),
        Target::Sql(connection, _) | Target::ErrorLog(connection, _) if connection.kind == Kind::Sqlite => {
            // There is one writer at a time.
            (TOGETHER, 1)
        }
        Target::Sql(..) | Target::ErrorLog(..) | Target::Metrics(_) => {
            (TOGETHER, PipeOptions::default().concurrency)
        }
        Target::Topic(..) => {
            let batch = if matches!(layout, Layout::Table(_)) { TABLE_TO_A_TOPIC } else { TO_A_TOPIC };
            (batch, PipeOptions::default().concurrency)
        }
        Target::Exchange(..) | Target::Stdout | Target::File(_) => return,
    };
    let (sets_batch, sets_depth) = (config.set("batch").is_some(), config.set("depth").is_some());
    let sets_concurrency = config.set("concurrency").is_some();
    let options = &mut config.options;
    if !sets_batch {
        options.batch = batch;
    }
    if !sets_concurrency {
        options.concurrency = concurrency;
    }
    if !sets_depth && options.batch == 1 {
        // Each message is a claim of its own, and a slow one must not keep the others from being claimed.
        options.depth = (options.concurrency * 2).clamp(1, 64);
    }
}

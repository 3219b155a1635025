//! How a pipe is put together: its two ends, its policy and its knobs. What it does is in `pipe.rs`.

use std::sync::Arc;
use std::time::Duration;

use crate::policy::Policy;
use crate::ready::Group;
use crate::sink::Sink;
use crate::source::Source;
use crate::stats::Stats;
use crate::watch::Watch;

/// The pause before the next look when there was work a moment ago; doubles up to the idle time.
pub(crate) const BUSY_PAUSE: Duration = Duration::from_millis(2);

/// Carries messages from a source to a sink until it is told to stop.
///
/// What it promises, between a source and a sink that keep their own clauses; `tests/simulation` checks each of them in
/// a hundred thousand seeded lives.
///
/// - **P1** Only what the sink called delivered is settled as done.
/// - **P2** A rejection spends one attempt of its message, and with [`Outage::Count`](crate::policy::Outage::Count) an
///   outage does. Nothing else does: not a stop, a crash, or an outage that is waited out.
/// - **P3** A message is dead once its attempts are spent, or at a rejection that is permanent, and not before. It holds
///   its key as the policy says; a defect that the source found holds nothing.
/// - **P4** Under key order, a message goes out once every earlier one of its key is done, or dead without holding it.
/// - **P5** A message goes out once per claim. So it comes again only if its outcome was unknown or its claim was lost,
///   and a loss repeats at most `depth` × `batch` messages.
/// - **P6** Claims are settled in the order in which they were made, with one verdict per message. A settle that is
///   repeated is the same.
/// - **P7** No more than `depth` claims are open, `batch` messages in one delivery, `concurrency` deliveries out; those of
///   one delivery are of one group.
/// - **P8** Nothing is begun to be delivered past the lease of its claim.
/// - **P9** While the sink is away nothing is claimed but one message at a time, to find out, when that is due.
/// - **P10** Once told to stop it claims and begins nothing more, settles what it has, closes the source and ends, within
///   `drain` and a few seconds.
/// - **P11** It goes on by itself: outages of either end are waited out, and whatever can be done is done. It ends by
///   itself only at what a person must change.
/// - **P12** A message that is to be tried again waits as long as the policy, or the sink, says.
pub struct Pipe {
    pub(crate) name: String,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) policy: Policy,
    pub(crate) batch: usize,
    pub(crate) depth: usize,
    pub(crate) concurrency: usize,
    pub(crate) group: Group,
    pub(crate) idle: Duration,
    pub(crate) drain: Duration,
    pub(crate) jitter: Box<dyn FnMut() -> f64 + Send>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) watchers: Vec<Arc<dyn Watch>>,
}

impl Pipe {
    /// A pipe with the default policy.
    pub fn new(source: impl Source + 'static, sink: impl Sink + 'static) -> Self {
        Self {
            name: "pipe".to_owned(),
            source: Arc::new(source),
            sink: Arc::new(sink),
            policy: Policy::default(),
            batch: 500,
            depth: 4,
            concurrency: 4,
            group: Group::None,
            idle: Duration::from_millis(500),
            drain: Duration::from_secs(30),
            jitter: Box::new(rand::random::<f64>),
            stats: Arc::default(),
            watchers: Vec::new(),
        }
    }

    /// Names the pipe in logs.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the rules for order, retries and outages.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets how many messages are claimed, and delivered, at a time (500).
    #[must_use]
    pub fn batch(mut self, batch: usize) -> Self {
        self.batch = batch.max(1);
        self
    }

    /// Sets how many claims may be in flight (4).
    #[must_use]
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = depth.max(1);
        self
    }

    /// Sets how many deliveries may overlap (4).
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// Sets which messages may go together in one delivery (any).
    #[must_use]
    pub fn group(mut self, group: Group) -> Self {
        self.group = group;
        self
    }

    /// Sets the longest pause between two looks at a source that has nothing (500 ms).
    #[must_use]
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = idle.max(BUSY_PAUSE);
        self
    }

    /// Sets how long a stop waits for what is in flight (30 s).
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Replaces the randomness of the delays, so that a run can be repeated.
    #[must_use]
    pub fn jitter(mut self, jitter: impl FnMut() -> f64 + Send + 'static) -> Self {
        self.jitter = Box::new(jitter);
        self
    }

    /// Adds somebody who is told what the pipe does.
    #[must_use]
    pub fn watch(mut self, watcher: impl Watch + 'static) -> Self {
        self.watchers.push(Arc::new(watcher));
        self
    }

    /// The counters, also while it runs.
    pub fn stats(&self) -> Arc<Stats> {
        self.stats.clone()
    }
}

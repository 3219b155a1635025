//! Named steps at which a test can end the process, as a power cut would.
//!
//! With the feature `failpoints`, the variable `OUTBOX_FAILPOINTS` names steps and what happens there, in the
//! language of `fail-parallel`: `settling=3*off->return` kills the process with SIGKILL at the fourth pass.
//! Without the feature this is nothing at all.

/// Every step of the loop and of what is beneath it, in the order in which a message meets them; renewing and
/// leaving come last. Some are only passed with certain backends: `published` with a broker, `handler_…` with an
/// inbox, `settle_set_aside` when a message failed or comes again, `moved` and `acknowledging` when a broker is the source.
#[cfg(feature = "failpoints")]
pub const STEPS: &[&str] = &[
    "claiming",
    "take_before_commit",
    "take_after_commit",
    "page_read",
    "claimed",
    "delivering",
    "published",
    "handler_before_commit",
    "handler_after_commit",
    "delivered",
    "settling",
    "settle_set_aside",
    "settle_before_commit",
    "settle_after_commit",
    "moved",
    "acknowledging",
    "settled",
    "renewing",
    "renewed",
    "closing",
    "closed",
];

#[cfg(feature = "failpoints")]
pub(crate) fn pass(step: &'static str) {
    use std::sync::{Arc, LazyLock};

    use fail_parallel::FailPointRegistry;

    static REGISTRY: LazyLock<Arc<FailPointRegistry>> = LazyLock::new(|| {
        let registry = Arc::new(FailPointRegistry::new());
        let configured = std::env::var("OUTBOX_FAILPOINTS").unwrap_or_default();
        for (name, actions) in configured.split(';').filter_map(|entry| entry.split_once('=')) {
            assert!(STEPS.contains(&name), "OUTBOX_FAILPOINTS names the unknown step '{name}'");
            if let Err(error) = fail_parallel::cfg(registry.clone(), name, actions) {
                panic!("OUTBOX_FAILPOINTS: {name}: {error}");
            }
        }
        registry
    });
    debug_assert!(STEPS.contains(&step), "{step} is missing in STEPS");
    let _ = fail_parallel::eval(REGISTRY.clone(), step, |_| {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    });
}

#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub(crate) fn pass(_step: &'static str) {}

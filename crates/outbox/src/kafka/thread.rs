//! Calls of the client that block.

use std::thread;

use tokio::sync::oneshot;

/// Runs what blocks on a thread of its own: one of the runtime's would keep the runtime from ending. None if the thread
/// could not be had, or has panicked.
pub(super) async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (answer, answered) = oneshot::channel();
    let spawned = thread::Builder::new().name("kafka call".to_owned()).spawn(move || {
        let _ = answer.send(work());
    });
    spawned.ok()?;
    answered.await.ok()
}

//! The hint of writers that notify: one connection that listens, however many cursors wait.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgListener, PgPool, PgPoolOptions};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

/// How long a listener that failed is left alone; polling goes on meanwhile.
const PAUSE: Duration = Duration::from_secs(5);

/// Wakes whoever waits when a writer has committed; only ever a hint.
#[derive(Debug)]
pub(super) struct Wake {
    /// Of its own: a listener keeps its connection, which the cursors would miss.
    pool: PgPool,
    woken: Arc<Notify>,
    listener: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl Wake {
    pub(super) fn new(pool: &PgPool) -> Self {
        let options = (*pool.connect_options()).clone();
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
        Self { pool, woken: Arc::default(), listener: Mutex::default() }
    }

    /// Returns when somebody has written, at the latest after `idle`.
    pub(super) async fn wait(&self, idle: Duration) {
        self.listen();
        let _ = tokio::time::timeout(idle, self.woken.notified()).await;
    }

    fn listen(&self) {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if listener.as_ref().is_some_and(|listener| !listener.is_finished()) {
            return;
        }
        let (pool, woken) = (self.pool.clone(), self.woken.clone());
        *listener = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                if let Ok(mut channel) = PgListener::connect_with(&pool).await
                    && channel.listen("outbox").await.is_ok()
                {
                    while channel.recv().await.is_ok() {
                        woken.notify_waiters();
                    }
                }
                tokio::time::sleep(PAUSE).await;
            }
        })));
    }
}

//! What stands before a sink and can be shut: then nothing gets through, and nobody is told.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use faults::Proxy;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// A gate; open when dropped, for whoever cleans up behind it.
pub(super) enum Gate {
    /// Before a broker.
    Proxy(Arc<Proxy>),
    /// An endpoint of our own, which takes every message.
    Endpoint { open: watch::Sender<bool>, port: u16, _server: AbortOnDropHandle<()> },
}

impl Gate {
    /// An endpoint that takes every message.
    pub(super) async fn endpoint() -> anyhow::Result<Self> {
        let (open, is_open) = watch::channel(true);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let take = |State(mut is_open): State<watch::Receiver<bool>>| async move {
            let _ = is_open.wait_for(|open| *open).await;
            StatusCode::NO_CONTENT
        };
        let router = Router::new().fallback(take).with_state(is_open);
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self::Endpoint { open, port, _server: AbortOnDropHandle::new(server) })
    }

    /// Where it is, on 127.0.0.1.
    pub(super) fn port(&self) -> u16 {
        match self {
            Self::Proxy(proxy) => proxy.port(),
            Self::Endpoint { port, .. } => *port,
        }
    }

    /// Opens or shuts it.
    pub(super) fn set(&self, is_open: bool) {
        match self {
            Self::Proxy(proxy) if is_open => proxy.unblock(),
            Self::Proxy(proxy) => proxy.block(),
            Self::Endpoint { open, .. } => drop(open.send_replace(is_open)),
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.set(true);
    }
}

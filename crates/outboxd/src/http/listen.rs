//! Takes connections, and bounds what each may cost: silent, slow and many clients must not keep the others waiting, nor
//! take the memory of the pipes.

use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer::Refusal;
use super::messages::BODY_LIMIT;

/// What a connection may hold in memory of what it sends and gets; a head that is larger is refused.
const BUFFER: usize = 64 * 1024;

/// Left alone for so long when the system gives no more connections: it does so when others have ended.
const EXHAUSTED: Duration = Duration::from_secs(1);

type Connection = http1::Connection<TokioIo<TcpStream>, FromPeer>;

/// Where a request comes from: the address at the other end of its connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// Puts the [`Peer`] into every request.
struct FromPeer {
    router: TowerToHyperService<Router>,
    peer: Peer,
}

impl Service<hyper::Request<Incoming>> for FromPeer {
    type Response = Response;
    type Error = std::convert::Infallible;
    type Future = <TowerToHyperService<Router> as Service<hyper::Request<Incoming>>>::Future;

    fn call(&self, mut request: hyper::Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        self.router.call(request)
    }
}

/// What clients may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Until the head of a request is there, from the beginning of the connection or from the answer before.
    pub(super) head: Duration,
    /// From the head to the end of the body.
    pub(super) body: Duration,
    /// From the head to the answer. Longer than a body and a publisher may take, so that only a fault meets it.
    pub(super) request: Duration,
    /// How old a connection may become. It bounds a client that does not read its answer.
    pub(super) age: Duration,
    /// After a stop, or at that age, so long may take what is under way; what takes longer is cut off.
    pub(super) finish: Duration,
    /// Connections at a time; who comes beyond that waits until one has ended.
    pub(super) connections: usize,
}

impl Limits {
    pub(super) const USUAL: Self = Self {
        head: Duration::from_secs(15),
        body: BODY_LIMIT,
        request: Duration::from_secs(120),
        age: Duration::from_secs(15 * 60),
        finish: Duration::from_secs(10),
        connections: 512,
    };
}

/// Serves until `stop`, then takes no more and finishes what is under way.
pub(super) async fn serve(listener: TcpListener, router: Router, limits: Limits, stop: CancellationToken) {
    let free = Arc::new(Semaphore::new(limits.connections));
    let connections = TaskTracker::new();
    while let Some((stream, peer, place)) = stop.run_until_cancelled(next(&listener, &free)).await {
        let (router, stop) = (router.clone(), stop.clone());
        connections.spawn(async move {
            converse(stream, peer, router, limits, stop).await;
            drop(place);
        });
    }
    // Who comes now is told at once that nobody listens.
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// A connection, as soon as there is a place for one more.
async fn next(listener: &TcpListener, free: &Arc<Semaphore>) -> (TcpStream, Peer, OwnedSemaphorePermit) {
    loop {
        // Nobody closes the semaphore.
        let Ok(place) = free.clone().acquire_owned().await else { continue };
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, Peer(peer.ip()), place),
            Err(error) => {
                // One that has gone already is no news; otherwise the system has no more to give.
                if !is_of_client(&error) {
                    tracing::warn!(%error, "cannot take an HTTP connection; trying again");
                    tokio::time::sleep(EXHAUSTED).await;
                }
            }
        }
    }
}

fn is_of_client(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// One connection to its end.
async fn converse(stream: TcpStream, peer: Peer, router: Router, limits: Limits, stop: CancellationToken) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(BUFFER);
    let service = FromPeer { router: TowerToHyperService::new(router), peer };
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => finish(connection, limits.finish).await,
        () = tokio::time::sleep(limits.age) => finish(connection, limits.finish).await,
    };
    if let Err(error) = ended {
        // The client has gone, was too slow, or speaks something else: nothing that somebody here could mend.
        tracing::debug!(%error, "an HTTP connection has ended");
    }
}

/// Lets what is under way be answered, and no more.
async fn finish(mut connection: Pin<&mut Connection>, limit: Duration) -> hyper::Result<()> {
    connection.as_mut().graceful_shutdown();
    match tokio::time::timeout(limit, connection).await {
        Ok(ended) => ended,
        Err(_) => {
            tracing::warn!("left an HTTP request that was still under way");
            Ok(())
        }
    }
}

/// Bounds the time from a request to its answer.
pub(super) async fn in_time(State(limit): State<Duration>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let error = format!("the request took longer than {limit:?}");
            Refusal::later(error, "send it again in a while, under the same id").into_response()
        }
    }
}

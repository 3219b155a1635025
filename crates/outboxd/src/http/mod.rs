//! The program's own HTTP server: figures, a sign of life, and publishing.
//!
//! | route | who may | what |
//! | --- | --- | --- |
//! | `GET /metrics` | anybody who reaches it | the figures, as Prometheus reads them |
//! | `GET /livez` | anybody who reaches it | 200 as long as the process serves |
//! | `GET /readyz` | anybody who reaches it | 200 if every pipe is ready, else 503 and which are not |
//! | `GET /health` | anybody who reaches it | the same, with how every pipe is |
//! | `POST /v1/messages` | with a token | publishes a message: 200 confirmed, 202 kept |
//! | `/login`, `/logout` | anybody who reaches it | signs in and out |
//! | `GET /v1/pipes` | viewers | how every pipe is, in every instance |
//! | `POST /v1/pipes/{pipe}/pause`, `/resume` | operators | lets a pipe stand still, or go on |
//! | the rest of `/v1` | viewers and operators | what the command line can do, see [`api`] |
//! | the pages | viewers and operators | the same for people, see [`pages`] |

mod answer;
mod api;
mod figures;
mod guard;
mod health;
mod listen;
mod messages;
mod pages;
mod person;
mod request;
mod slow;
mod to_the_end;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use axum::{Router, extract::State};
use outbox::Publisher;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use figures::Figures;

use crate::health::Health;
use crate::ops::Office;
use crate::options::AccessOptions;
use crate::secret::Secret;
use answer::Refusal;
use guard::Guard;
use listen::Limits;
use pages::Board;

/// The door for the fuzz target of published messages.
#[cfg(fuzzing)]
pub fn read_request(headers: &axum::http::HeaderMap, body: bytes::Bytes) -> Result<outbox::Message, String> {
    request::read(headers, body).map_err(|refusal| format!("{refusal:?}"))
}

/// How the server is set up.
pub struct HttpOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What a request to publish must bear: one of these. Several, so that one can follow another.
    pub tokens: Vec<Secret>,
    /// Who may ask for pages and the API.
    pub access: AccessOptions,
    /// What `/metrics` shows.
    pub figures: Figures,
    /// What `/health` and `/readyz` show.
    pub health: Arc<Health>,
    /// What people can see and do.
    pub office: Arc<Office>,
}

/// A publisher, as soon as its store is open; or why that will not be.
pub type Slot = Arc<OnceLock<Result<Publisher, String>>>;

/// What the handlers share.
struct Shared {
    options: HttpOptions,
    publishers: BTreeMap<String, Slot>,
    guard: Guard,
    board: Arc<Board>,
    office: Arc<Office>,
}

/// A server that has its port.
pub struct Serving {
    /// Where it listens.
    pub addr: SocketAddr,
    task: JoinHandle<()>,
}

impl Serving {
    /// Returns when the server has ended, after a stop and what was under way.
    pub async fn ended(self) {
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the HTTP server ended by a bug");
        }
    }
}

/// Binds the address, or says why not, and serves until `stop`; then it takes no more and finishes what is under way.
pub async fn serve(
    options: HttpOptions,
    publishers: BTreeMap<String, Slot>,
    stop: CancellationToken,
) -> anyhow::Result<Serving> {
    serve_within(Limits::USUAL, options, publishers, stop).await
}

async fn serve_within(
    limits: Limits,
    options: HttpOptions,
    publishers: BTreeMap<String, Slot>,
    stop: CancellationToken,
) -> anyhow::Result<Serving> {
    let listen = options.listen;
    let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    let addr = listener.local_addr().context("cannot tell where it listens")?;
    let figures = options.figures.clone();
    let guard = Guard::new(&options)?;
    let board = Arc::new(Board::new(stop.child_token()));
    let sampling = tokio::spawn(pages::keep(
        Arc::clone(&board),
        Arc::clone(&options.health),
        Arc::clone(&options.office),
    ));
    let office = options.office.clone();
    let router = router(Arc::new(Shared { options, publishers, guard, board, office }))
        .layer(from_fn_with_state(limits.body, slow::body_in_time))
        .layer(from_fn_with_state(limits.request, listen::in_time))
        .layer(from_fn(answer::as_page))
        .layer(from_fn(guard::headers));
    let task = tokio::spawn(async move {
        let upkeep = tokio::spawn(figures.upkeep(stop.clone()));
        listen::serve(listener, router, limits, stop).await;
        upkeep.abort();
        sampling.abort();
    });
    let serving = Serving { addr, task };
    tracing::info!(addr = %serving.addr, "listening for HTTP");
    Ok(serving)
}

fn router(shared: Arc<Shared>) -> Router {
    let guarded = Router::new()
        .merge(api::routes())
        .fallback(nowhere)
        .layer(from_fn_with_state(Arc::clone(&shared), guard::api));
    let open = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(health::readyz))
        .route("/health", get(health::health))
        .route("/metrics", get(show_figures))
        .layer(from_fn_with_state(Arc::clone(&shared), guard::host));
    let pages = pages::routes().layer(from_fn_with_state(Arc::clone(&shared), guard::page));
    Router::new()
        .nest("/v1", guarded)
        .merge(open)
        .merge(guard::front_routes(&shared))
        .merge(pages)
        .fallback(nowhere)
        .method_not_allowed_fallback(wrong_method)
        .with_state(shared)
}

async fn show_figures(State(shared): State<Arc<Shared>>) -> ([(HeaderName, &'static str); 1], String) {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], shared.options.figures.render())
}

/// What is said to who has lost the way.
const THERE: &str = "there are pages at /, what GET /v1/openapi.json lists, POST /v1/messages, GET /metrics, GET /health, \
    GET /readyz and GET /livez";

async fn nowhere() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "there is nothing at this path", THERE)
}

async fn wrong_method() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this method does nothing here", THERE)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that fails should say where")]
mod tests;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that fails should say where")]
mod listen_tests;

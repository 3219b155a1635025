//! Bodies that take too long: whatever reads one, it ends in time.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Frame, SizeHint};
use tokio::time::Sleep;

use super::answer::Refusal;

/// A body that ends with an error when its time is over.
struct Bounded {
    body: Body,
    limit: Pin<Box<Sleep>>,
    /// Whether that has happened: who reads it only sees that it has ended too early.
    late: Arc<AtomicBool>,
}

impl HttpBody for Bounded {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        ready!(self.limit.as_mut().poll(context));
        self.late.store(true, Ordering::Relaxed);
        Poll::Ready(Some(Err("it took too long".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bounds the time in which a body is to be there, from the head on.
pub(super) async fn body_in_time(State(limit): State<Duration>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let late = Arc::new(AtomicBool::new(false));
    let bounded = |body| {
        Body::new(Bounded { body, limit: Box::pin(tokio::time::sleep(limit)), late: Arc::clone(&late) })
    };
    let response = next.run(request.map(bounded)).await;
    if !late.load(Ordering::Relaxed) {
        return response;
    }
    let error = format!("the body took longer than {limit:?}");
    Refusal::new(StatusCode::REQUEST_TIMEOUT, error, "send it again").into_response()
}

//! Whether the pipes of this process are ready, and how they are. Nobody is asked for it: it is what is known already.
//!
//! Where strangers can come they are told states and reasons, and neither the words of others nor who paused what.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use outbox::pauses::Pause;
use serde_json::{Value, json};

use super::Shared;
use crate::health::{Away, Judged, Level, Phase, View, sink_away};

/// Whether every pipe is ready, or which are not and why.
pub(super) async fn readyz(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let mut not_ready = Vec::new();
    for (view, told) in judged(&shared, &headers) {
        not_ready.extend(reasons(&view, &told));
    }
    let body = json!({ "ready": not_ready.is_empty(), "not_ready": not_ready });
    (code(not_ready.is_empty()), Json(body)).into_response()
}

/// How every pipe is.
pub(super) async fn health(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let judged = judged(&shared, &headers);
    let worst = judged.iter().map(|(_, told)| told.judged.level).max().unwrap_or(Level::Ok);
    let body = json!({
        "status": worst.as_str(),
        "instance": shared.options.health.instance,
        "version": env!("CARGO_PKG_VERSION"),
        "pipes": judged.iter().map(|(view, told)| pipe(view, told)).collect::<Vec<_>>(),
    });
    (code(worst < Level::Failing), Json(body)).into_response()
}

/// Every pipe, with as much as this asker may read.
fn judged(shared: &Shared, headers: &HeaderMap) -> Vec<(View, Told)> {
    let whole = shared.guard.may_read_causes(shared.options.listen, headers);
    let judged = shared.options.health.judged().into_iter();
    judged.map(|(view, judged)| (view, Told { judged, whole })).collect()
}

/// What a pipe's state means, and whether its causes may be read.
struct Told {
    judged: Judged,
    whole: bool,
}

impl Told {
    /// What only who is known may read.
    fn inside<T>(&self, what: T) -> Option<T> {
        self.whole.then_some(what)
    }
}

fn code(ready: bool) -> StatusCode {
    if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

fn reasons(view: &View, told: &Told) -> Vec<Value> {
    let reason = |(reason, detail): &(&str, String)| json!({ "pipe": view.pipe, "reason": reason, "detail": told.inside(detail) });
    told.judged.unready.iter().map(reason).collect()
}

fn pipe(view: &View, told: &Told) -> Value {
    let end = |name: &str, away: Option<&Away>| {
        let (since, why) = (away.map(|away| away.since), away.map(|away| told.inside(&away.why)));
        json!({ "name": name, "reachable": away.is_none(), "since": since, "why": why })
    };
    let open = view.open.as_ref();
    let paused = |pause: &Pause| json!({ "by": told.inside(&pause.by), "at": pause.at, "note": told.inside(&pause.note) });
    json!({
        "pipe": view.pipe,
        "status": told.judged.level.as_str(),
        "state": told.judged.state.as_str(),
        "cause": told.inside(&told.judged.cause),
        "paused": view.pause.as_ref().map(paused),
        "running": view.phase == Phase::Running,
        "source": end(&view.from, view.source_away.as_ref()),
        "sink": end(&view.to, sink_away(view)),
        "breaker": {
            "open": open.is_some(),
            "since": open.map(|away| away.since),
            "why": open.map(|away| told.inside(&away.why)),
        },
        "last_message_at": view.last_message_at,
        "delivered": view.delivered,
        "failed": view.failed,
        "in_flight": view.in_flight,
        "lag_seconds": view.lag.map(|lag| lag.as_secs_f64()),
        "not_ready": reasons(view, told),
    })
}

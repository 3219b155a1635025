//! Whether the pipes of this process are ready, and how they are. Nobody is asked for it: it is what is known already.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::Shared;
use crate::health::{Away, Judged, Level, Phase, View, sink_away};

/// Whether every pipe is ready, or which are not and why.
pub(super) async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    let mut not_ready = Vec::new();
    for (view, judged) in shared.options.health.judged() {
        not_ready.extend(reasons(&view, &judged));
    }
    let body = json!({ "ready": not_ready.is_empty(), "not_ready": not_ready });
    (code(not_ready.is_empty()), Json(body)).into_response()
}

/// How every pipe is.
pub(super) async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let judged = shared.options.health.judged();
    let worst = judged.iter().map(|(_, judged)| judged.level).max().unwrap_or(Level::Ok);
    let body = json!({
        "status": worst.as_str(),
        "instance": shared.options.health.instance,
        "version": env!("CARGO_PKG_VERSION"),
        "pipes": judged.iter().map(|(view, judged)| pipe(view, judged)).collect::<Vec<_>>(),
    });
    (code(worst < Level::Failing), Json(body)).into_response()
}

fn code(ready: bool) -> StatusCode {
    if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

fn reasons(view: &View, judged: &Judged) -> Vec<Value> {
    let told = judged.unready.iter();
    told.map(|(reason, detail)| json!({ "pipe": view.pipe, "reason": reason, "detail": detail })).collect()
}

fn pipe(view: &View, judged: &Judged) -> Value {
    let end = |name: &str, away: Option<&Away>| {
        let (since, why) = (away.map(|away| away.since), away.map(|away| &away.why));
        json!({ "name": name, "reachable": away.is_none(), "since": since, "why": why })
    };
    let open = view.open.as_ref();
    json!({
        "pipe": view.pipe,
        "status": judged.level.as_str(),
        "state": judged.state.as_str(),
        "cause": judged.cause,
        "paused": view.pause.as_ref().map(|pause| json!({ "by": pause.by, "at": pause.at, "note": pause.note })),
        "running": view.phase == Phase::Running,
        "source": end(&view.from, view.source_away.as_ref()),
        "sink": end(&view.to, sink_away(view)),
        "breaker": {
            "open": open.is_some(),
            "since": open.map(|away| away.since),
            "why": open.map(|away| &away.why),
        },
        "last_message_at": view.last_message_at,
        "delivered": view.delivered,
        "failed": view.failed,
        "in_flight": view.in_flight,
        "lag_seconds": view.lag.map(|lag| lag.as_secs_f64()),
        "not_ready": reasons(view, judged),
    })
}

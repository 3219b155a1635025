//! What the command line can do, as JSON. Each handler reads what is asked, calls [`ops`](crate::ops), and answers.

mod asked;
mod dead;
mod doctor;
mod errors;
mod failures;
mod look;
mod me;
mod pipes;
mod repair;

use std::future::Future;
use std::sync::{Arc, OnceLock};

use axum::{Json, Router};
use serde::Serialize;
use utoipa::openapi::{InfoBuilder, OpenApi};
use utoipa::{ToSchema, openapi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::asked::{Nothing, Params};
use super::Shared;
use super::answer::Refusal;
use super::messages;
use super::person::{Person, may_see_payloads};
use crate::ops::Office;
use crate::trouble::Trouble;

/// What every request that is not carried out is answered with.
#[derive(Serialize, ToSchema)]
pub(super) struct Refused {
    /// Why.
    error: String,
    /// What to do about it.
    help: String,
}

/// An answer of a handler.
type Answered<T> = Result<Json<T>, Refusal>;

/// Below `/v1`. Who asks is known: the guard has put a [`Person`] into the request.
pub(super) fn routes() -> Router<Arc<Shared>> {
    let (router, document) = parts().split_for_parts();
    // All are built from the same parts, so the first is as good as any.
    DOCUMENT.get_or_init(|| finish(document));
    router
}

static DOCUMENT: OnceLock<OpenApi> = OnceLock::new();

fn parts() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(me::me))
        .routes(routes!(look::status))
        .routes(routes!(pipes::pipes))
        .routes(routes!(look::queues))
        .routes(routes!(look::messages))
        .routes(routes!(messages::publish))
        .routes(routes!(look::message))
        .routes(routes!(look::audit))
        .routes(routes!(look::config))
        .routes(routes!(repair::retry))
        .routes(routes!(repair::skip))
        .routes(routes!(repair::send))
        .routes(routes!(repair::replay))
        .routes(routes!(repair::purge))
        .routes(routes!(pipes::pause))
        .routes(routes!(pipes::resume))
        .merge(dead::routes())
        .merge(errors::routes())
        .merge(failures::routes())
        .merge(doctor::routes())
        .routes(routes!(document))
}

/// The whole document: the paths as they are asked, and how somebody shows who they are.
fn finish(paths: OpenApi) -> OpenApi {
    use openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
    let info = InfoBuilder::new().title("outboxd").version(env!("CARGO_PKG_VERSION"));
    let info = info.description(Some("What the command line can do, as JSON.")).build();
    let mut whole = openapi::OpenApiBuilder::new().info(info).build().nest("/v1", paths);
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let components = whole.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    whole.security = Some(vec![SecurityRequirement::new("token", Vec::<String>::new())]);
    whole
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "look", responses(
    (status = 200, description = "The document", body = serde_json::Value),
    (status = "default", description = "Why not", body = Refused),
))]
async fn document(_: Person, _: Params<Nothing>) -> Answered<&'static OpenApi> {
    Ok(Json(DOCUMENT.get_or_init(|| finish(parts().into_openapi()))))
}

/// Does something to its end, whatever becomes of the client.
async fn to_the_end<T: Send + 'static>(
    office: &Office,
    deed: impl Future<Output = Result<T, Trouble>> + Send + 'static,
) -> Answered<T> {
    super::to_the_end::to_the_end(office, deed).await.map(Json)
}

/// Whether a payload may be told: refuses who asks for one and may not see it.
fn may_ask_for_payload(shared: &Shared, person: &Person) -> Result<bool, Refusal> {
    if may_see_payloads(person, shared.options.access.payloads) {
        return Ok(true);
    }
    let error = format!("{} may not see payloads", person.name);
    let help = "ask without payload, or somebody who may";
    Err(Refusal::new(axum::http::StatusCode::FORBIDDEN, error, help))
}

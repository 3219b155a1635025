//! What a browser gives: the path, the query and the form of a request. What cannot be read is refused as a page, with what
//! to do.

use axum::extract::{Form, FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::http::answer::Refusal;

const GO_BACK: &str = "go back to the page before, load it again, and go on from there";

/// What stands in the path.
pub(super) struct At<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for At<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        path.map(|Path(path)| Self(path))
            .map_err(|wrong| refused(wrong.status(), "the path of the address", &wrong.body_text()))
    }
}

/// What stands in the query.
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let query = Query::<T>::try_from_uri(&parts.uri);
        query
            .map(|Query(query)| Self(query))
            .map_err(|wrong| refused(wrong.status(), "the query of the address", &wrong.body_text()))
    }
}

/// What stands in the form.
pub(super) struct Filled<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Filled<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let form = Form::<T>::from_request(request, state).await;
        form.map(|Form(form)| Self(form))
            .map_err(|wrong| refused(wrong.status(), "the form", &wrong.body_text()))
    }
}

/// In one line, not as long as what somebody sent, and without the framework's own words before it.
fn refused(status: StatusCode, what: &str, why: &str) -> Refusal {
    let why = why.rsplit_once("deserialize ").map_or(why, |(_, why)| why);
    let why = why.split_once(": ").map_or(why, |(_, why)| why);
    let why: String = why.chars().filter(|c| !c.is_control()).take(300).collect();
    // What is well-formed and means nothing is as wrong as any other request.
    let status = if status == StatusCode::UNPROCESSABLE_ENTITY { StatusCode::BAD_REQUEST } else { status };
    Refusal::new(status, format!("{what} cannot be read: {why}"), GO_BACK)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::header;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        #[allow(dead_code, reason = "it is only read")]
        after: Option<u64>,
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_refused_with_what_to_do() {
        let mut parts =
            Request::get("/messages?after=moon").body(Body::empty()).expect("a request").into_parts().0;
        let wrong =
            Params::<Asked>::from_request_parts(&mut parts, &()).await.err().expect("it is no number");
        let (status, told) = wrong.told();
        assert_eq!(status, 400);
        assert!(told.starts_with("the query of the address cannot be read: after: invalid digit"), "{told}");
        let form = |text: &'static str| {
            let request = Request::post("/pipes/a/pause");
            let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
            Filled::<Asked>::from_request(request.body(Body::from(text)).expect("a request"), &())
        };
        assert!(form("after=7").await.is_ok());
        let wrong = form("moon=1").await.err().expect("there is no such field");
        let (status, told) = wrong.told();
        assert_eq!(status, 400);
        assert!(told.starts_with("the form cannot be read: moon: unknown field `moon`"), "{told}");
    }

    #[tokio::test]
    async fn what_is_no_form_is_refused_as_such() {
        let request = Request::post("/theme").body(Body::from("x")).expect("a request");
        let wrong = Filled::<Asked>::from_request(request, &()).await.err().expect("it is no form");
        assert_eq!(wrong.told().0, 415);
    }
}

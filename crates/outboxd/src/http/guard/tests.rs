//! The layers around routes of their own: a page and a deed, each for whom it is.

use axum::body::{Body, to_bytes};
use axum::middleware::from_fn;
use axum::routing::{get, post};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use outbox::pauses::Pause;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::http::answer::as_page;
use crate::http::health;
use crate::http::pages::Board;
use crate::http::person::{Operator, Role};
use crate::http::tests::{TOKEN, options};
use crate::options::PersonOptions;
use crate::secret::Secret;

const VIEWER: &str = "Authorization: Bearer viewer-token-16";
const OPERATOR: &str = "Authorization: Bearer operator-token-16";
const BROWSER: &str = "Accept: text/html,application/xhtml+xml";

fn shared(change: impl FnOnce(&mut AccessOptions)) -> Arc<Shared> {
    let mut options = options("127.0.0.1:0");
    for (name, role) in [("viewer", Role::Viewer), ("operator", Role::Operator)] {
        let token = Some(Secret::new(format!("{name}-token-16")));
        options.access.people.insert(name.to_owned(), PersonOptions { role, password_hash: None, token });
    }
    change(&mut options.access);
    let guard = Guard::new(&options).unwrap();
    let office = options.office.clone();
    let board = Arc::new(Board::new(CancellationToken::new()));
    Arc::new(Shared { options, publishers: Default::default(), guard, board, office })
}

fn router(shared: &Arc<Shared>) -> Router {
    let routes = || {
        Router::new()
            .route("/look", get(async |person: Person| person.name))
            .route("/act", post(async |Operator(person): Operator| person.name))
    };
    let with_messages = routes().route("/messages", get(async || "listed").post(async || "published"));
    let api = with_messages.layer(from_fn_with_state(Arc::clone(shared), api));
    let pages = routes()
        .route("/assets/style.css", get(async || "body {}"))
        .layer(from_fn_with_state(Arc::clone(shared), page));
    let open = Router::new().route("/readyz", get(health::readyz)).route("/health", get(health::health));
    let all = Router::new().nest("/v1", api).merge(pages).merge(open).with_state(Arc::clone(shared));
    all.layer(from_fn(as_page))
}

/// Status, `Location` and body.
async fn ask(shared: &Arc<Shared>, request: &str, lines: &[&str]) -> (u16, String, String) {
    let (method, path) = request.split_once(' ').unwrap();
    let mut builder = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:8480");
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        builder = builder.header(name, value);
    }
    let request = builder.body(Body::empty()).unwrap();
    let response = TowerToHyperService::new(router(shared)).call(request).await.unwrap();
    let location = response.headers().get(header::LOCATION).map(|value| value.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 100_000).await.unwrap();
    (status, location.unwrap_or_default(), String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_viewer_looks_and_an_operator_acts() {
    let shared = shared(|_| ());
    for prefix in ["", "/v1"] {
        let look = format!("GET {prefix}/look");
        let act = format!("POST {prefix}/act");
        assert_eq!(ask(&shared, &look, &[VIEWER]).await, (200, String::new(), "viewer".to_owned()));
        assert_eq!(ask(&shared, &look, &[OPERATOR]).await.2, "operator");
        assert_eq!(ask(&shared, &act, &[OPERATOR]).await.2, "operator");
        let (status, _, body) = ask(&shared, &act, &[VIEWER]).await;
        assert!(
            status == 403 && body.starts_with('{') && body.contains("viewer may look, but change"),
            "{body}"
        );
    }
    let (status, _, body) = ask(&shared, "POST /act", &[VIEWER, BROWSER]).await;
    assert!(status == 403 && body.contains("<h1>viewer may look, but change nothing</h1>"), "{body}");
    let (status, _, body) = ask(&shared, "POST /v1/act", &[VIEWER, BROWSER]).await;
    assert!(status == 403 && body.starts_with('{'), "the API speaks JSON with everybody: {body}");
}

#[tokio::test]
async fn who_is_not_known_is_led_to_sign_in_or_told_as_json() {
    let shared = shared(|_| ());
    let (status, location, _) = ask(&shared, "GET /look?after=5", &[BROWSER]).await;
    assert_eq!((status, &*location), (303, "/login?next=%2Flook%3Fafter%3D5"));
    assert_eq!(ask(&shared, "POST /act", &[BROWSER]).await.1, "/login");
    for request in ["GET /look", "GET /v1/look", "POST /act", "POST /v1/act"] {
        let (status, _, body) = ask(&shared, request, &["Accept: */*"]).await;
        assert!(status == 401 && body.contains("nobody has signed in"), "{request}: {status} {body}");
    }
    let (status, location, body) = ask(&shared, "GET /v1/look", &[BROWSER]).await;
    assert!(status == 401 && location.is_empty() && body.starts_with('{'), "{body}");
    let (status, _, body) = ask(&shared, "GET /assets/style.css", &[]).await;
    assert_eq!((status, &*body), (200, "body {}"), "also who signs in wants to see something");
}

#[tokio::test]
async fn somebody_without_a_name_may_what_is_configured() {
    let own = "Sec-Fetch-Site: same-origin";
    let viewer = shared(|access| access.anonymous = Some(Role::Viewer));
    assert_eq!(ask(&viewer, "GET /look", &[BROWSER]).await.2, "anonymous");
    assert_eq!(ask(&viewer, "POST /act", &[own]).await.0, 403);
    let operator = shared(|access| access.anonymous = Some(Role::Operator));
    assert_eq!(ask(&operator, "POST /v1/act", &[own]).await.2, "anonymous");
    let (status, _, body) = ask(&operator, "POST /act", &["Sec-Fetch-Site: cross-site", BROWSER]).await;
    assert!(
        status == 403 && body.contains("<h1>the request comes from a page of another site</h1>"),
        "{body}"
    );
    assert_eq!(ask(&operator, "GET /look", &[VIEWER]).await.2, "viewer", "who says who they are is that");
}

#[tokio::test]
async fn a_page_of_another_site_may_lead_here_and_no_more() {
    let shared = shared(|access| access.anonymous = Some(Role::Viewer));
    let cross = "Sec-Fetch-Site: cross-site";
    let link = [cross, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"];
    let image = [cross, "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"];
    for path in ["/look", "/v1/look"] {
        let request = format!("GET {path}");
        assert_eq!(ask(&shared, &request, &link).await.2, "anonymous");
        let (status, _, body) = ask(&shared, &request, &image).await;
        assert!(status == 403 && body.contains("a page of another site"), "{body}");
        assert_eq!(ask(&shared, &request, &[cross, VIEWER]).await.2, "viewer", "no browser adds a token");
    }
    assert_eq!(ask(&shared, "POST /act", &link).await.0, 403, "a form of another site is no link");
}

#[tokio::test]
async fn what_is_switched_off_is_not_there() {
    let off = shared(|access| access.dashboard = false);
    for request in ["GET /look", "GET /v1/look", "GET /assets/style.css"] {
        let (status, _, body) = ask(&off, request, &[OPERATOR]).await;
        assert!(status == 404 && body.contains("set dashboard = true"), "{request}: {body}");
    }
}

/// An application that publishes has its token from `[http]`; it must not open what operators do.
#[tokio::test]
async fn the_token_of_publishers_publishes_and_opens_nothing_else() {
    let publisher = format!("Authorization: Bearer {TOKEN}");
    let shared = shared(|access| access.anonymous = Some(Role::Operator));
    assert_eq!(ask(&shared, "POST /v1/messages", &[&publisher]).await.2, "published");
    for request in ["GET /v1/messages", "GET /v1/look", "POST /v1/act", "GET /look", "POST /act"] {
        let (status, _, body) = ask(&shared, request, &[&publisher]).await;
        let told = body.contains("this token publishes, and may nothing else");
        assert!(status == 403 && told && body.contains("[http.people.NAME]"), "{request}: {status} {body}");
    }
    let (status, _, body) = ask(&shared, "POST /v1/messages", &[OPERATOR]).await;
    assert!(status == 401 && body.contains("the token of [http]"), "people do not publish: {body}");
}

/// Causes quote what endpoints answered; who paused a pipe is nobody's business but the people's.
#[tokio::test]
async fn d8_strangers_are_told_states_and_reasons_and_no_more() {
    let here = shared(|_| ());
    let mut there = Arc::into_inner(shared(|_| ())).unwrap();
    there.options.listen = "0.0.0.0:0".parse().unwrap();
    let there = Arc::new(there);
    let pause = Pause {
        pipe: "relay".to_owned(),
        by: "anna-canary".to_owned(),
        at: jiff::Timestamp::now(),
        note: Some("note-canary".to_owned()),
    };
    for shared in [&here, &there] {
        let relay = shared.options.health.pipe("relay").unwrap();
        relay.source_failed("source-canary");
        relay.set_pause(Some(pause.clone()));
        relay.sink_looked_at(Err("sink-canary".to_owned()));
        relay.ended(Some("end-canary".to_owned()));
    }
    let known = ["anna-canary", "note-canary", "source-canary", "sink-canary", "end-canary"];
    for (shared, lines) in [(&here, &[][..]), (&there, &[VIEWER])] {
        let (status, _, body) = ask(shared, "GET /health", lines).await;
        assert!(status == 503 && known.iter().all(|words| body.contains(words)), "{body}");
        assert!(ask(shared, "GET /readyz", lines).await.2.contains("end-canary"));
    }
    for lines in [&[][..], &["Authorization: Bearer wrong-token-0123456789"]] {
        for path in ["/health", "/readyz"] {
            let (status, _, body) = ask(&there, &format!("GET {path}"), lines).await;
            assert!(status == 503 && !body.contains("canary"), "{path}: {body}");
            assert!(body.contains("\"reason\":\"stopped\"") && body.contains("\"detail\":null"), "{body}");
        }
    }
}

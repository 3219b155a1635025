//! Who is not let in, and how that is told.

use super::client::{ask, me, sign_in};
use super::{ANNA, ANNAS_TOKEN, CI_TOKEN, PUBLISHER_TOKEN, end, hash, start, usual};
use crate::program::{Program, RELAY};

#[tokio::test(flavor = "multi_thread")]
async fn only_a_known_token_is_let_in_with_its_name_and_role() {
    let program = usual("");
    let (running, address) = start(&program);
    let none = me(address, &[]).await;
    none.assert_refused(401, "nobody has signed in");
    assert_eq!(none.header("www-authenticate"), Some("Bearer realm=\"outboxd\""));
    let wrong = me(address, &["Authorization: Bearer wrong-token-0123456789"]).await;
    wrong.assert_refused(401, "the token is not known");
    assert!(wrong.header("www-authenticate").unwrap().contains("invalid_token"), "{wrong:#?}");
    me(address, &["Authorization: Basic YTpi"]).await.assert_refused(401, "nobody has signed in");
    ask(address, "POST /v1/nothing", &[], "").await.assert_refused(401, "nobody has signed in");
    for (token, name, role) in [(ANNAS_TOKEN, "anna", "operator"), (CI_TOKEN, "ci", "viewer")] {
        let known = me(address, &[&format!("Authorization: Bearer {token}")]).await;
        assert_eq!((known.status, known.json()), (200, serde_json::json!({ "name": name, "role": role })));
    }
    // Programs publish, people do not.
    let publish =
        ask(address, "POST /v1/messages", &[&format!("Authorization: Bearer {ANNAS_TOKEN}")], "{}").await;
    publish.assert_refused(401, "the token is not known");
    let look = me(address, &[&format!("Authorization: Bearer {PUBLISHER_TOKEN}")]).await;
    look.assert_refused(403, "this token publishes, and may nothing else");
    let publish =
        ask(address, "POST /v1/messages", &[&format!("Authorization: Bearer {PUBLISHER_TOKEN}")], "{}").await;
    publish.assert_refused(404, "there is no publisher");
    end(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_may_change_nothing_by_any_route() {
    let program = usual("");
    let (running, address) = start(&program);
    let viewer = format!("Authorization: Bearer {CI_TOKEN}");
    let document = ask(address, "GET /v1/openapi.json", &[&viewer], "").await.json();
    let mut refused = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        if methods["post"].is_null() {
            continue;
        }
        let filled = path.replace("{pipe}", "relay").replace("{source}", "orders");
        assert!(!filled.contains('{'), "{filled}");
        let lines = [&*viewer, "Content-Type: application/json"];
        let answer = ask(address, &format!("POST {filled}"), &lines, "{}").await;
        match path.as_str() {
            // For programs that publish, and not for people.
            "/v1/messages" => answer.assert_refused(401, "the token is not known"),
            _ => answer.assert_refused(403, "ci may look, but change nothing"),
        }
        refused += 1;
    }
    assert!(refused > 10, "{refused}");
    for path in ["/v1/config", "/v1/doctor"] {
        ask(address, &format!("GET {path}"), &[&viewer], "").await.assert_refused(403, "may look, but");
    }
    end(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_a_page_without_signing_in_is_led_to_where_they_can() {
    let program = usual("");
    let (running, address) = start(&program);
    for path in ["/", "/pipes", "/messages", "/failures", "/queues", "/doctor", "/audit", "/config"] {
        let page = ask(address, &format!("GET {path}"), &["Accept: text/html"], "").await;
        assert_eq!(page.status, 303, "{path}: {page:#?}");
        assert!(page.header("location").unwrap().starts_with("/login"), "{path}: {page:#?}");
        assert!(page.body.is_empty(), "{path}: {page:#?}");
        ask(address, &format!("GET {path}"), &[], "").await.assert_refused(401, "nobody has signed in");
    }
    end(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_changes_nothing_with_somebodys_cookie() {
    let program = usual("");
    let (running, address) = start(&program);
    let cookie = format!("Cookie: {}", sign_in(address, "anna", ANNA, "/").await.cookie());
    let own = format!("Origin: http://{address}");
    for (lines, words) in [
        (&["Sec-Fetch-Site: cross-site", own.as_str()][..], "comes from a page of another site"),
        (&["Sec-Fetch-Site: same-site"], "comes from a page of another site"),
        (&["Origin: http://evil.example"], "comes from a page of another origin"),
        (&["Origin: null"], "comes from a page of another origin"),
        (&[], "does not say from which page it comes"),
    ] {
        let lines = [&[cookie.as_str()][..], lines].concat();
        for path in ["/logout", "/v1/nothing"] {
            ask(address, &format!("POST {path}"), &lines, "").await.assert_refused(403, words);
        }
        let form = "name=anna&password=x";
        ask(address, "POST /login", &lines, form).await.assert_refused(403, words);
    }
    assert_eq!(me(address, &[&cookie]).await.status, 200, "she is still signed in");
    let (cross, link) =
        ("Sec-Fetch-Site: cross-site", ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"]);
    me(address, &[&cookie, cross]).await.assert_refused(403, "comes from a page of another site");
    assert_eq!(me(address, &[&cookie, cross, link[0], link[1]]).await.status, 200, "a link leads here");
    // A token is not sent by a browser on its own.
    let token = format!("Authorization: Bearer {ANNAS_TOKEN}");
    ask(address, "POST /v1/nothing", &[&token], "").await.assert_refused(404, "nothing at this path");
    ask(address, "POST /v1/nothing", &[&cookie, &own], "").await.assert_refused(404, "nothing at this path");
    end(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_not_signed_in_may_what_is_written_and_only_from_pages_of_this_server() {
    let program = usual("anonymous = \"operator\"");
    let (running, address) = start(&program);
    let answer = me(address, &[]).await;
    assert_eq!(answer.json(), serde_json::json!({ "name": "anonymous", "role": "operator" }));
    let foreign = ["Sec-Fetch-Site: cross-site"];
    ask(address, "POST /v1/nothing", &foreign, "").await.assert_refused(403, "a page of another site");
    ask(address, "POST /v1/nothing", &[], "").await.assert_refused(403, "does not say from which page");
    let own = ["Sec-Fetch-Site: same-origin"];
    ask(address, "POST /v1/nothing", &own, "").await.assert_refused(404, "nothing at this path");
    me(address, &["Authorization: Bearer wrong-token-0123456789"]).await.assert_refused(401, "not known");
    end(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_not_listed_is_refused_also_with_a_token() {
    let program = usual("anonymous = \"viewer\"");
    let (running, address) = start(&program);
    let token = format!("Authorization: Bearer {ANNAS_TOKEN}");
    for host in ["evil.example", "outbox.example.com.evil.example", "127.0.0.1.evil.example:80", ""] {
        let host = format!("Host: {host}");
        for lines in [&[host.as_str()][..], &[host.as_str(), token.as_str()]] {
            me(address, lines).await.assert_refused(403, "this server is not known by that name");
        }
        ask(address, "GET /login", &[&host], "").await.assert_refused(403, "not known by that name");
    }
    for host in ["outbox.example.com", "Outbox.Example.Com:443", "localhost:1", "192.0.2.1"] {
        assert_eq!(me(address, &[&format!("Host: {host}"), &token]).await.status, 200, "{host}");
    }
    let figures = ask(address, "GET /metrics", &["Host: outbox.example.com"], "").await;
    figures.assert_refused(403, "not known by that name");
    end(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_tells_a_browser_to_take_nothing_from_elsewhere() {
    let program = usual("");
    let (running, address) = start(&program);
    for path in ["/login", "/v1/me", "/metrics", "/livez", "/nowhere", "/v1/nowhere"] {
        for accept in ["Accept: text/html", "Accept: application/json"] {
            let answer = ask(address, &format!("GET {path}"), &[accept], "").await;
            for (name, words) in [
                ("content-security-policy", "default-src 'none'; script-src 'self'; style-src 'self';"),
                ("content-security-policy", "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"),
                ("x-content-type-options", "nosniff"),
                ("referrer-policy", "same-origin"),
                ("cross-origin-opener-policy", "same-origin"),
                ("cross-origin-resource-policy", "same-origin"),
                ("cache-control", "no-store"),
            ] {
                let told = answer.header(name).unwrap_or_else(|| panic!("{path} lacks {name}"));
                assert!(told.contains(words), "{path}: {name}: {told}");
            }
        }
    }
    let page = ask(address, "GET /nowhere", &["Accept: text/html"], "").await;
    assert_eq!((page.status, page.header("content-type")), (404, Some("text/html; charset=utf-8")));
    assert!(page.body.contains("<h1>there is nothing at this path</h1>"), "{}", page.body);
    end(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn switched_off_pages_and_api_are_not_there() {
    let program = usual("dashboard = false");
    let (running, address) = start(&program);
    let token = format!("Authorization: Bearer {ANNAS_TOKEN}");
    me(address, &[&token]).await.assert_refused(404, "pages and the API are switched off here");
    ask(address, "GET /login", &[], "").await.assert_refused(404, "pages and the API are switched off here");
    sign_in(address, "anna", ANNA, "/").await.assert_refused(404, "switched off");
    assert_eq!(ask(address, "GET /metrics", &[], "").await.status, 200);
    let publish =
        ask(address, "POST /v1/messages", &[&format!("Authorization: Bearer {PUBLISHER_TOKEN}")], "{}").await;
    publish.assert_refused(404, "there is no publisher");
    end(running);
}

#[test]
fn a_configuration_that_lets_anybody_in_is_refused() {
    let person = format!("[http.people.anna]\nrole = \"viewer\"\npassword_hash = \"{}\"\n", hash(ANNA));
    for (http, words) in [
        (
            "listen = \"0.0.0.0:0\"\n".to_owned(),
            "outboxd.toml:15:10: http.listen = \"0.0.0.0:0\": anybody can reach it, and nobody needs to sign in",
        ),
        (
            format!("listen = \"0.0.0.0:0\"\nanonymous = \"viewer\"\n{person}"),
            "outboxd.toml:16:13: http.anonymous = \"viewer\": anybody can reach 0.0.0.0:0 without signing in",
        ),
        (
            format!("listen = \"127.0.0.1:0\"\n{}", person.replace("$argon2id", "$argon2i")),
            "outboxd.toml:18:17: http.people.anna.password_hash: is no argon2id hash of a password",
        ),
    ] {
        let program = Program::with(&format!("{RELAY}[http]\n{http}"));
        for verb in ["validate", "run"] {
            let ran = program.run(&[verb]);
            let (error, help) = ran.only_error(3);
            assert!(error.ends_with(words), "{error}");
            assert!(!help.is_empty() && !error.contains("$argon2"), "{ran:#?}");
        }
    }
    let program = Program::migrated(&format!("{RELAY}[http]\nlisten = \"0.0.0.0:0\"\n{person}"));
    end(start(&program).0);
}

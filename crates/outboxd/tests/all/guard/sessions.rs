//! Signing in with a password, and for how long that holds.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Answer, ask, me, sign_in};
use super::{ANNA, BEN, config, end, hash, start, usual};
use crate::program::{PATIENCE, Program, Ran};

/// Signs in, and gives the line with the cookie.
fn cookie(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{answer:#?}");
    format!("Cookie: {}", answer.cookie())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_begins_a_session_and_signing_out_ends_it() {
    let program = usual("");
    let (running, address) = start(&program);
    let page = ask(address, "GET /login?next=%2Fmessages", &["Accept: text/html"], "").await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    for part in ["<form method=\"post\" action=\"/login\"", "value=\"/messages\"", "type=\"password\""] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    let signed_in = sign_in(address, "anna", ANNA, "/messages?after=5").await;
    assert_eq!(signed_in.header("location"), Some("/messages?after=5"));
    let set = signed_in.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=43200"] {
        assert!(set.contains(part), "{part}: {set}");
    }
    assert!(!set.contains("Secure"), "it came without TLS: {set}");
    let cookie = cookie(&signed_in);
    assert_eq!(me(address, &[&cookie]).await.json(), json!({ "name": "anna", "role": "operator" }));
    let own = ["Origin: http://localhost:1", "Host: localhost:1", &*cookie];
    let signed_out = ask(address, "POST /logout", &own, "").await;
    assert_eq!((signed_out.status, signed_out.header("location")), (303, Some("/login")));
    let removed = signed_out.header("set-cookie").unwrap();
    assert!(removed.starts_with("outboxd-session=;") && removed.contains("Max-Age=0"), "{removed}");
    me(address, &[&cookie]).await.assert_refused(401, "nobody has signed in");
    let over_tls = ["Host: outbox.example.com", "Origin: https://outbox.example.com"];
    let form = ["Content-Type: application/x-www-form-urlencoded"];
    let body = format!("name=ben&password={}", BEN.replace(' ', "+").replace('\'', "%27"));
    let signed_in = ask(address, "POST /login", &[&over_tls[..], &form[..]].concat(), &body).await;
    assert!(signed_in.header("set-cookie").unwrap().contains("; Secure"), "{signed_in:#?}");
    let said = end(running);
    for words in [
        "signed in person=\"anna\" address=127.0.0.1",
        "signed out person=\"anna\"",
        "signed in person=\"ben\"",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlives_a_restart_but_no_changed_password_and_the_role_is_looked_up() {
    let annas = hash(ANNA);
    let program = Program::migrated(&config("", &annas, "operator"));
    let (running, address) = start(&program);
    let cookie = cookie(&sign_in(address, "anna", ANNA, "/").await);
    let value = cookie.split_once("outboxd-session=").unwrap().1;
    let later = value.replace(".1", ".9");
    for forged in
        [format!("A{value}"), later, "anna.9999999999.AAAA".to_owned(), value[..value.len() - 1].to_owned()]
    {
        me(address, &[&format!("Cookie: outboxd-session={forged}")])
            .await
            .assert_refused(401, "nobody has signed in");
    }
    end(running);
    program.write("outboxd.toml", &config("", &annas, "viewer"));
    let (running, address) = start(&program);
    assert_eq!(me(address, &[&cookie]).await.json(), json!({ "name": "anna", "role": "viewer" }));
    end(running);
    // The same password, hashed again: whoever took the cookie is out.
    program.write("outboxd.toml", &config("", &hash(ANNA), "viewer"));
    let (running, address) = start(&program);
    me(address, &[&cookie]).await.assert_refused(401, "nobody has signed in");
    end(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_when_its_time_is_over() {
    let program = usual("session_lasts = \"2s\"");
    let (running, address) = start(&program);
    let cookie = cookie(&sign_in(address, "anna", ANNA, "/").await);
    let begun = Instant::now();
    while me(address, &[&cookie]).await.status == 200 {
        assert!(begun.elapsed() < PATIENCE, "it never ends");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    me(address, &[&cookie]).await.assert_refused(401, "nobody has signed in");
    end(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_led_to_another_server_after_signing_in() {
    let program = usual("");
    let (running, address) = start(&program);
    for next in [
        "//evil.example/",
        "https://evil.example/",
        "/\\evil.example",
        "javascript:alert(1)",
        "/\t/evil.example",
    ] {
        let signed_in = sign_in(address, "anna", ANNA, next).await;
        assert_eq!((signed_in.status, signed_in.header("location")), (303, Some("/")), "{next}");
        let encoded: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
        let page = ask(address, &format!("GET /login?next={encoded}"), &[], "").await;
        assert!(page.body.contains("name=\"next\" value=\"/\""), "{}", page.body);
    }
    let page = ask(address, "GET /login?next=%2F%22%3E%3Cscript%3E", &[], "").await;
    assert!(!page.body.contains("<script>"), "{}", page.body);
    end(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_a_password_is_slowed_down_and_counted() {
    let program = usual("");
    let (running, address) = start(&program);
    for _ in 0..5 {
        let wrong = sign_in(address, "anna", "not her password", "/").await;
        assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None), "{wrong:#?}");
        assert!(wrong.body.contains("the name or the password is wrong"), "{}", wrong.body);
        assert!(wrong.body.contains("value=\"anna\""), "the name need not be typed again: {}", wrong.body);
    }
    for password in ["not her password", ANNA] {
        let early = sign_in(address, "anna", password, "/").await;
        assert_eq!((early.status, early.header("set-cookie")), (429, None), "{early:#?}");
        let wait: u64 = early.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=10).contains(&wait), "{wait}");
        assert!(early.body.contains("there were too many attempts; try again in "), "{}", early.body);
    }
    assert_eq!(sign_in(address, "ben", BEN, "/").await.status, 303, "somebody else may");
    // The address has failed five times; five more, by names that nobody has, and it waits too.
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!(sign_in(address, name, "x", "/").await.status, 401);
    }
    assert_eq!(sign_in(address, "ben", BEN, "/").await.status, 429);
    let figures = ask(address, "GET /metrics", &[], "").await.body;
    for (outcome, count) in [("refused", 10), ("slowed", 3), ("signed_in", 1)] {
        let line = format!("outbox_logins_total{{outcome=\"{outcome}\"}} {count}");
        assert!(figures.contains(&line), "{line}: {figures}");
    }
    let said = end(running);
    assert!(
        said.contains("could not sign in: wrong name or password person=\"anna\" address=127.0.0.1"),
        "{said}"
    );
    assert!(said.contains("too many attempts person=\"anna\""), "{said}");
    assert!(said.contains("wrong name or password person=\"somebody unknown\""), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_none_and_a_server_where_nobody_has_a_password_say_what_to_do() {
    let program = usual("");
    let (running, address) = start(&program);
    let own = ["Sec-Fetch-Site: same-origin", "Content-Type: application/x-www-form-urlencoded"];
    for body in ["", "name=anna", "name=anna&password=x&role=operator"] {
        ask(address, "POST /login", &own, body).await.assert_refused(400, "the form cannot be read");
    }
    let heavy = format!("name=anna&password={}", "x".repeat(20_000));
    ask(address, "POST /login", &own, &heavy).await.assert_refused(400, "the form cannot be read");
    end(running);
    let program = Program::migrated(&format!("{}[http]\nlisten = \"127.0.0.1:0\"\n", crate::program::RELAY));
    let (running, address) = start(&program);
    let page = ask(address, "GET /login", &[], "").await;
    assert!(page.status == 200 && page.body.contains("nobody has a password here"), "{page:#?}");
    assert_eq!(sign_in(address, "anna", ANNA, "/").await.status, 401);
    end(running);
}

/// `outboxd password` with this on standard input.
fn password(program: &Program, typed: &str) -> Ran {
    let mut command = program.command(&["password"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_password_prints_is_what_somebody_signs_in_with() {
    let empty = Program::new();
    let ran = password(&empty, &format!("{ANNA}\nmore lines\n"));
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(
        ran.stdout.starts_with("$argon2id$v=19$m=19456,t=2,p=1$") && ran.stdout.lines().count() == 1,
        "{ran:#?}"
    );
    assert!(ran.stderr.contains("[http.people.NAME]") && !ran.stderr.contains("$argon2id"), "{ran:#?}");
    assert!(!format!("{ran:?}").contains(ANNA), "{ran:#?}");
    let again = password(&empty, &format!("{ANNA}\n"));
    assert_ne!(again.stdout, ran.stdout, "each has a salt of its own");
    let short = password(&empty, "short\n");
    assert_eq!(short.only_error(2).0, "the password has 5 characters, and needs 12 or more");
    assert_eq!(short.stdout, "");
    let program = Program::migrated(&config("", ran.stdout.trim(), "operator"));
    let (running, address) = start(&program);
    assert_eq!(sign_in(address, "anna", ANNA, "/").await.status, 303);
    assert_eq!(sign_in(address, "anna", "another long password", "/").await.status, 401);
    end(running);
}

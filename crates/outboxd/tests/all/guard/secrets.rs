//! What opens the door is in no output.

use super::client::{ask, me, sign_in};
use super::{ANNA, ANNAS_TOKEN, CI_TOKEN, PUBLISHER_TOKEN, SESSION_KEY, config, end, hash, start};
use crate::program::Program;

#[tokio::test(flavor = "multi_thread")]
async fn no_password_token_hash_key_or_cookie_is_shown_anywhere() {
    let annas = hash(ANNA);
    let program = Program::migrated(&format!("{}[log]\nlevel = \"trace\"\n", config("", &annas, "operator")));
    let (running, address) = start(&program);
    let mut shown =
        vec![program.ok(&["config", "show"]), program.ok(&["config", "show", "--format", "json"])];
    let signed_in = sign_in(address, "anna", ANNA, "/").await;
    let cookie = signed_in.cookie();
    let typed = ["typed-as-a-password-1", "typed-as-a-password-2", "typed-as-a-name-3"];
    shown.push(sign_in(address, "anna", typed[0], "/").await.body);
    shown.push(sign_in(address, "nobody", typed[1], "/").await.body);
    sign_in(address, typed[2], "x", "/").await;
    shown.push(me(address, &[&format!("Cookie: {cookie}")]).await.body);
    shown.push(me(address, &[&format!("Cookie: {cookie}x")]).await.body);
    for token in [ANNAS_TOKEN, CI_TOKEN, PUBLISHER_TOKEN] {
        shown.push(me(address, &[&format!("Authorization: Bearer {token}")]).await.body);
        shown.push(me(address, &[&format!("Authorization: Bearer {token}x")]).await.body);
    }
    let own = ["Sec-Fetch-Site: same-origin", &*format!("Cookie: {cookie}")];
    shown.push(ask(address, "POST /logout", &own, "").await.body);
    shown.push(ask(address, "GET /metrics", &[], "").await.body);
    shown.push(ask(address, "GET /health", &[], "").await.body);
    shown.push(end(running));
    let said = shown.last().unwrap();
    assert!(said.contains("signed in") && said.contains("signed out"), "{said}");
    let value = cookie.split_once('=').unwrap().1;
    let end_of_hash = annas.rsplit('$').next().unwrap();
    let secrets = [ANNA, ANNAS_TOKEN, CI_TOKEN, PUBLISHER_TOKEN, SESSION_KEY, &*annas, end_of_hash, value];
    for secret in secrets.into_iter().chain(typed) {
        for text in &shown {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    assert!(
        shown[0].contains("password_hash = \"***\"") && shown[0].contains("session_key = \"***\""),
        "{}",
        shown[0]
    );
}

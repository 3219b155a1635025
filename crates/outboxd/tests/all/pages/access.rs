//! Who may see and do what in a browser.

use super::scene::{Scene, Store};
use crate::program::RELAY;

#[tokio::test(flavor = "multi_thread")]
async fn e6_whoever_only_looks_is_offered_no_action_and_sees_no_payload() {
    let Some(store) = Store::with("anonymous = \"viewer\"", "").await else { return };
    let scene = &store.scene;
    store.endpoint.answer_type("order.refused", 422);
    let id = scene.program.ok(&["send", "--type", "order.refused", "--data", "{\"card\":\"4711\"}"]);
    let path = format!("/messages/orders/{}", id.trim());
    scene.until(&path, "given it up").await;
    scene.sees("Not shown").await;
    let text = scene.page.text().await.unwrap();
    assert!(!text.contains("4711") && !text.contains("Retry"), "{text}");
    scene.goto("/failures").await;
    scene.sees("HTTP_422").await;
    let text = scene.page.text().await.unwrap();
    assert!(!text.contains("Retry") && !text.contains("Doctor") && !text.contains("Config"), "{text}");
    let refused = scene.other_page().await;
    for path in ["/doctor", "/config", "/failures/preview?verb=retry&place=outbox&name=orders"] {
        refused.goto(&format!("{}{path}", scene.url)).await.unwrap();
        refused.until_text("may look, but change nothing").await.unwrap();
    }
    store.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn e6_who_is_not_known_signs_in_and_out() {
    let program = crate::program::Program::with(RELAY);
    let mut command = program.command(&["password"]);
    let hash = super::scene::hash(&mut command, "correct horse battery");
    let people = format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[http.people.anna]\nrole = \"operator\"\npassword_hash = \"{hash}\"\n"
    );
    let Some(scene) = Scene::open(&format!("{RELAY}{people}")).await else { return };
    scene.goto("/messages?filter=state%3Adead").await;
    scene.sees("Sign in").await;
    scene.page.fill("#name", "anna").await.unwrap();
    scene.page.fill("#password", "correct horse battery").await.unwrap();
    scene.picture("login").await;
    scene.page.fill("#name", "anna").await.unwrap();
    scene.page.fill("#password", "correct horse battery").await.unwrap();
    scene.page.key("Enter").await.unwrap();
    scene.page.until("location.search.includes('state')").await.unwrap();
    scene.sees("anna").await;
    scene.press("Sign out").await;
    scene.page.until("location.pathname === '/login'").await.unwrap();
    scene.goto("/").await;
    scene.page.until("location.pathname === '/login'").await.unwrap();
    scene.end();
}

//! `/pipes`, `/doctor`, `/audit` and `/config`.

use super::scene::Store;

#[tokio::test(flavor = "multi_thread")]
async fn d8_e5_pipes_show_who_runs_them_and_are_paused_and_resumed() {
    let Some(store) = Store::open("").await else { return };
    let scene = &store.scene;
    scene.program.send("a");
    scene.until("/pipes", "this one").await;
    for words in ["orders → mailer", "orders → lines", "running", "closed", "Owner", "Pending"] {
        scene.sees(words).await;
    }
    scene.page.fill("#pipe-notify [name=note]", "moving house").await.unwrap();
    scene.page.click("#pipe-notify .buttons button").await.unwrap();
    scene.sees("Pipe 'notify' is paused").await;
    scene.sees("Paused by anonymous").await;
    scene.sees("moving house").await;
    // The page follows by itself.
    scene.page.until("!!document.querySelector('#pipe-notify td .state.paused')").await.unwrap();
    let before = store.endpoint.posted().len();
    scene.program.send("b");
    scene.until("/messages?filter=key%3Ab+pipe%3Aarchive", "done").await;
    assert_eq!(store.endpoint.posted().len(), before, "nothing is sent while it is paused");
    scene.goto("/pipes").await;
    scene.press("Resume").await;
    scene.sees("Pipe 'notify' goes on").await;
    store.endpoint.wait_for(before + 1).await;
    scene.goto("/audit").await;
    scene.sees("pause").await;
    scene.sees("resume").await;
    scene.page.fill("[name=action]", "resume").await.unwrap();
    scene.page.key("Enter").await.unwrap();
    scene.page.until("document.querySelectorAll('tbody tr').length === 2").await.unwrap();
    store.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_doctor_tells_what_it_found_and_the_configuration_hides_its_secrets() {
    let Some(store) = Store::open("").await else { return };
    let scene = &store.scene;
    scene.goto("/doctor").await;
    scene.sees("source orders").await;
    scene.sees("sink mailer").await;
    scene.press("Look again").await;
    scene.sees("Looked at").await;
    scene.goto("/config").await;
    scene.sees("[pipes.notify]").await;
    assert!(!scene.page.text().await.unwrap().contains(super::scene::SECRET), "a token is masked");
    store.end();
}

//! `/failures` of an outbox: grouped by cause, looked at first, then retried or let go; also without JavaScript.

use super::scene::Store;

/// So many of each type are refused.
async fn with_dead(store: &Store, kinds: &[(&str, u16, usize)]) {
    for (kind, answer, count) in kinds {
        store.endpoint.answer_type(kind, *answer);
        for number in 0..*count {
            let key = format!("{kind}-{number}");
            store.scene.program.ok(&["send", "--type", kind, "--key", &key, "--data", "{\"n\":1}"]);
        }
    }
    let dead: usize = kinds.iter().map(|(.., count)| count).sum();
    store.scene.until("/", &format!("{dead} messages are dead")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_e7_failures_are_grouped_by_cause_previewed_and_dealt_with_in_bulk() {
    let Some(store) = Store::open("").await else { return };
    let scene = &store.scene;
    scene.goto("/failures").await;
    scene.sees("Nothing waits for you").await;
    with_dead(&store, &[("order.refused", 422, 3), ("order.gone", 410, 2)]).await;
    scene.goto("/failures").await;
    let groups = "document.querySelectorAll('.group').length";
    assert_eq!(scene.page.eval(groups).await.unwrap(), 2);
    for words in ["HTTP_422", "order.refused", "HTTP_410", "outbox orders, pipe notify"] {
        scene.sees(words).await;
    }
    // The largest group is the first.
    scene.press("Skip…").await;
    scene.sees("Skip 3 messages?").await;
    scene.sees("This cannot be undone").await;
    scene.sees("Nothing has been done yet").await;
    scene.press("Leave it").await;
    scene.page.until("location.pathname === '/failures'").await.unwrap();
    assert_eq!(scene.page.eval(groups).await.unwrap(), 2, "nothing was done");
    scene.press("Skip…").await;
    scene.press("Skip 3 messages").await;
    scene.sees("Skipped 3 of 3.").await;
    assert_eq!(scene.page.eval(groups).await.unwrap(), 1);
    scene.goto("/failures").await;
    assert!(!scene.page.text().await.unwrap().contains("Skipped"), "it is said once");
    store.endpoint.answer_type("order.gone", 200);
    scene.press("Retry…").await;
    scene.press("Retry 2 messages").await;
    scene.sees("Retried 2 of 2.").await;
    scene.until("/failures", "Nothing waits for you").await;
    scene.goto("/audit").await;
    for words in ["anonymous", "skip", "retry", "code=HTTP_410"] {
        scene.sees(words).await;
    }
    store.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_every_action_works_without_javascript() {
    let Some(store) = Store::open("").await else { return };
    let scene = &store.scene;
    with_dead(&store, &[("order.refused", 422, 2)]).await;
    scene.page.scripts(false).await.unwrap();
    scene.goto("/").await;
    scene.sees("The last minutes").await;
    scene.press("Failures").await;
    scene.sees("HTTP_422").await;
    scene.press("Retry…").await;
    scene.sees("Retry 2 messages?").await;
    store.endpoint.answer_type("order.refused", 200);
    scene.press("Retry 2 messages").await;
    scene.sees("Retried 2 of 2.").await;
    scene.press("Pipes").await;
    scene.page.fill("#pipe-notify [name=note]", "the mailer is being moved").await.unwrap();
    scene.page.click("#pipe-notify .buttons button").await.unwrap();
    scene.sees("Pipe 'notify' is paused, in all instances.").await;
    scene.sees("the mailer is being moved").await;
    scene.page.click("#pipe-notify .buttons button").await.unwrap();
    scene.sees("Pipe 'notify' goes on, in all instances.").await;
    scene.press("Doctor").await;
    scene.press("Look again").await;
    scene.sees("Looked at").await;
    scene.page.click("button[name=theme]").await.unwrap();
    scene.page.until("document.documentElement.dataset.theme === 'dark'").await.unwrap();
    store.end();
}

//! `/failures` of an outbox: grouped by cause, looked at first, then retried or let go; also without JavaScript.

use std::time::{Duration, Instant};

use super::scene::Store;
use crate::program::PATIENCE;

/// So many of each type are refused.
async fn with_dead(store: &Store, kinds: &[(&str, u16, usize)]) {
    for (kind, answer, count) in kinds {
        store.endpoint.answer_type(kind, *answer);
        for number in 0..*count {
            let key = format!("{kind}-{number}");
            store.scene.program.ok(&["send", "--type", kind, "--key", &key, "--data", "{\"n\":1}"]);
            // Twenty in a row would be the fault of the handler, and no message would die of it.
            if number % 5 == 0 {
                store.scene.program.send("fine");
            }
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
async fn e7_what_nobody_was_shown_is_not_skipped_though_there_are_as_many() {
    let Some(store) = Store::open("").await else { return };
    let scene = &store.scene;
    with_dead(&store, &[("order.refused", 422, 3)]).await;
    scene.goto("/failures").await;
    scene.press("Skip…").await;
    scene.sees("Skip 3 messages?").await;
    // Somebody else deals with one of them, and another one dies.
    let dead = || {
        let listed = scene.program.json(&["list", "--state", "dead"]);
        let ids =
            listed["messages"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    scene.program.ok(&["skip", &dead()[0], "--yes"]);
    scene.program.ok(&["send", "--type", "order.refused", "--key", "late", "--data", "{}"]);
    let begun = Instant::now();
    while dead().len() < 3 {
        assert!(begun.elapsed() < PATIENCE, "it never died");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    scene.press("Skip 3 messages").await;
    scene.sees("What matches has changed since you looked, so nothing was done.").await;
    assert_eq!(dead().len(), 3, "nothing was done");
    scene.press("Skip 3 messages").await;
    scene.sees("Skipped 3 of 3.").await;
    assert!(dead().is_empty());
    store.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_an_outbox_in_postgres_is_seen_and_repaired_in_the_same_way() {
    let Some(postgres) = testbed::postgres().await else { return };
    let database = postgres.database().await.unwrap();
    let http = "anonymous = \"operator\"";
    let Some(store) = Store::on(database.url(), http, "").await else { return };
    let scene = &store.scene;
    with_dead(&store, &[("order.refused", 422, 60)]).await;
    scene.goto("/messages?filter=state%3Adead").await;
    let rows = "document.querySelectorAll('tbody tr').length";
    assert_eq!(scene.page.eval(rows).await.unwrap(), 50);
    scene.press("Next page").await;
    scene.page.until(&format!("location.search.includes('after=') && {rows} === 10")).await.unwrap();
    store.endpoint.answer_type("order.refused", 200);
    scene.press("Retry all…").await;
    scene.sees("Retry 60 messages?").await;
    scene.press("Retry 60 messages").await;
    scene.sees("Retried 60 of 60.").await;
    scene.until("/failures", "Nothing waits for you").await;
    scene.until("/", "Healthy.").await;
    scene.until("/pipes", "Owner").await;
    scene.goto("/audit").await;
    scene.sees("state=dead").await;
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

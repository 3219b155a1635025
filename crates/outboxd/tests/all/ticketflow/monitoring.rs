//! A10: the questions of the document, answered by one command.

use std::time::{Duration, Instant};

use super::{QUICK, Scene, UNROUTED, changed, event, stop};
use crate::program::{PATIENCE, Program};
use crate::web::{get, server};

#[tokio::test(flavor = "multi_thread")]
async fn a10_one_command_tells_what_is_pending_has_trouble_was_processed_and_how_fast() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    scene.create(7).await;
    scene.insert(&event(UNROUTED, 1)).await;
    let running = scene.run_active();
    scene.until(r#"select count(*) = 7 and (select max("Attempts") = 5 from "OutboxMessages") from "ProcessedEvents""#).await;
    stop(running);
    // Two that wait, one of them after three attempts; and two from before, one of them more than an hour ago.
    for _ in 0..4 {
        scene.insert(&event(UNROUTED, 2)).await;
    }
    let prepare = r#"
        update "OutboxMessages" set "Attempts" = 3, "Error" = 'timeout' where ctid =
            (select ctid from "OutboxMessages" where "Attempts" = 0 and "DispatchedAt" is null limit 1);
        with old as (
            update "OutboxMessages" set "DispatchedAt" = now() - interval '10 minutes' where ctid = any(array
                (select ctid from "OutboxMessages" where "Attempts" = 0 and "DispatchedAt" is null limit 2))
            returning "Id", "DispatchedAt")
        insert into "ProcessedEvents" select * from old;
        update "OutboxMessages" set "DispatchedAt" = now() - interval '2 hours' where "Id" =
            (select "EventId" from "ProcessedEvents" where "ProcessedAt" < now() - interval '9 minutes' limit 1);
        update "ProcessedEvents" set "ProcessedAt" = "DispatchedAt" from "OutboxMessages" where "Id" = "EventId""#;
    scene.execute(prepare).await;
    let status = scene.program.json(&["status", "--activity"]);
    let pipe = &status["pipes"][0];
    let number = |value: &serde_json::Value| value.as_i64().unwrap_or_else(|| panic!("{status:#}"));
    assert_eq!([&pipe["pending"], &pipe["waiting"], &pipe["dead"]].map(number), [1, 1, 1], "{status:#}");
    let activity = &status["activity"][0];
    assert_eq!((number(&activity["tried_often"]), number(&activity["done_last_hour"])), (1, 8), "{status:#}");
    let minutes = activity["by_minute"].as_array().unwrap();
    let done: Vec<_> = minutes.iter().map(|minute| number(&minute["done"])).collect();
    assert_eq!(done.last(), Some(&1), "newest first: {status:#}");
    assert_eq!(done.iter().sum::<i64>(), 8, "{status:#}");
    // The queries of the document say the same.
    let pending = r#"select count(*) from "OutboxMessages" where "DispatchedAt" is null"#;
    assert_eq!(scene.count(pending).await, 3);
    let trouble = r#"select count(*) from "OutboxMessages" where "Attempts" >= 3 and "DispatchedAt" is null"#;
    assert_eq!(scene.count(trouble).await, number(&activity["tried_often"]) + number(&pipe["dead"]));
    let hour = r#"select count(*) from "ProcessedEvents" where "ProcessedAt" > now() - interval '1 hour'"#;
    assert_eq!(scene.count(hour).await, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a10_one_page_tells_what_was_processed_in_the_last_hour_and_what_has_trouble() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let config = changed(&QUICK) + "[http]\nlisten = \"127.0.0.1:0\"\nanonymous = \"viewer\"\n";
    let program =
        Program::with(&config).env("DATABASE_URL", &scene.database).env("RABBITMQ_URL", scene.vhost.url());
    scene.create(7).await;
    let mut running = program.start(&["run"]);
    let address = server(&mut running);
    scene.until_dispatched().await;
    // What was told is kept for a while, so the page knows of them within that.
    let begun = Instant::now();
    loop {
        let (status, page) = get(address, "/").await;
        assert_eq!(status, 200);
        let row = page.split("<td>tickets</td>").nth(1).unwrap_or_default();
        if row.starts_with("<td class=\"figure\">7</td><td class=\"figure\">0</td>") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{page}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    stop(running);
}

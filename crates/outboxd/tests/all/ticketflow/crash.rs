//! A relay that is killed again and again: nothing is lost, and marks, processed ids and the broker agree.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use sqlx::{Connection, PgConnection};
use tokio_util::sync::CancellationToken;

use super::producer::{CREATED, STATUS_CHANGED};
use super::{QUICK, Scene, event, stop};
use crate::kills::{Kills, Ledger, STEPS};

/// What a relay may have in flight: claims of fifty, four at a time.
const WINDOW: usize = 4 * 50;

#[tokio::test(flavor = "multi_thread")]
async fn a7_nothing_is_lost_and_all_agree_however_often_the_relay_is_killed() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    // The queue, and the relay that made it, before anybody is killed.
    stop(scene.run_active());
    let mut kills = Kills::new("ticketflow", 125);
    let (ledger, stop_writing) = (Arc::new(Ledger::default()), CancellationToken::new());
    let writer = write(scene.session().await, kills.random(), ledger.clone(), stop_writing.clone());
    let writer = tokio::spawn(writer);
    kills.run(&scene.program, &["run"], &[&STEPS[..], &["published"]].concat()).await;
    stop_writing.cancel();
    writer.await.unwrap();
    let last = scene.run();
    scene.until_dispatched().await;
    stop(last);
    let arrived = scene.arrived().await;
    ledger.assert_arrived(arrived.iter().map(String::as_str), &kills, WINDOW);
    let processed = r#"select "EventId"::text from "ProcessedEvents" order by 1"#;
    let processed: Vec<String> = sqlx::query_scalar(processed).fetch_all(&scene.pool).await.unwrap();
    assert_eq!(processed, ledger.ids(), "exactly what was committed is recorded");
    let together = r#"select count(*) from "OutboxMessages" as o join "ProcessedEvents" as p on "EventId" = "Id"
        where o.xmin = p.xmin and "Attempts" = 0 and "Error" is null"#;
    assert_eq!(scene.count(together).await, i64::try_from(ledger.len()).unwrap());
}

/// Writes transactions of some events, of which some are rolled back, until told to stop.
async fn write(mut session: PgConnection, mut random: StdRng, ledger: Arc<Ledger>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let mut tx = session.begin().await.unwrap();
        let mut ids = Vec::new();
        for _ in 0..random.random_range(1..20) {
            let kind = if random.random_bool(0.5) { CREATED } else { STATUS_CHANGED };
            let event = event(kind, 0);
            event.insert(&mut tx).await.unwrap();
            ids.push(event.id);
        }
        if random.random_bool(0.15) {
            tx.rollback().await.unwrap();
        } else {
            tx.commit().await.unwrap();
            ids.into_iter().for_each(|id| ledger.note(id));
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(0..60))).await;
    }
}

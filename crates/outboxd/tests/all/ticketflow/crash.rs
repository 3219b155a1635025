//! A relay that is killed again and again: nothing is lost, and marks, processed ids and the broker agree.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use sqlx::{Connection, PgConnection};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::producer::{CREATED, STATUS_CHANGED};
use super::{QUICK, Scene, event, stop};
use crate::kills::{Kills, Ledger, STEPS};
use crate::program::Running;

/// What a relay may have in flight: claims of fifty, four at a time.
const WINDOW: usize = 4 * 50;

#[tokio::test(flavor = "multi_thread")]
async fn a7_nothing_is_lost_and_all_agree_however_often_the_relay_is_killed() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let mut kills = Kills::new("ticketflow", 125);
    let writer = Writer::start(&scene, &mut kills).await;
    kills.run(&scene.program, &["run"], &[&STEPS[..], &["published"]].concat()).await;
    let ledger = writer.stop().await;
    check(&scene, scene.run(), &ledger, &kills).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a2_a_standby_takes_over_again_and_again_and_nothing_is_lost() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let mut kills = Kills::new("ticketflow with a standby", 50);
    let writer = Writer::start(&scene, &mut kills).await;
    let limit = Duration::from_secs(2);
    let last = kills.run_with_standby(&scene.program, &["run"], "this relay is the active one", limit).await;
    let ledger = writer.stop().await;
    check(&scene, last, &ledger, &kills).await;
}

/// Lets the last relay carry what is left, then compares what was committed, what arrived and what is written down.
async fn check(scene: &Scene, last: Running, ledger: &Ledger, kills: &Kills) {
    scene.until_dispatched().await;
    stop(last);
    let arrived = scene.arrived().await;
    ledger.assert_arrived(arrived.iter().map(String::as_str), kills, WINDOW);
    let processed = r#"select "EventId"::text from "ProcessedEvents" order by 1"#;
    let processed: Vec<String> = sqlx::query_scalar(processed).fetch_all(&scene.pool).await.unwrap();
    assert_eq!(processed, ledger.ids(), "exactly what was committed is recorded");
    let together = r#"select count(*) from "OutboxMessages" as o join "ProcessedEvents" as p on "EventId" = "Id"
        where o.xmin = p.xmin and "Attempts" = 0 and "Error" is null"#;
    assert_eq!(scene.count(together).await, i64::try_from(ledger.len()).unwrap());
}

/// The application, which writes all the while.
struct Writer {
    ledger: Arc<Ledger>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Writer {
    async fn start(scene: &Scene, kills: &mut Kills) -> Self {
        let (ledger, stop) = (Arc::new(Ledger::default()), CancellationToken::new());
        let task = write(scene.session().await, kills.random(), ledger.clone(), stop.clone());
        Self { ledger, stop, task: tokio::spawn(task) }
    }

    async fn stop(self) -> Arc<Ledger> {
        self.stop.cancel();
        self.task.await.unwrap();
        self.ledger
    }
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

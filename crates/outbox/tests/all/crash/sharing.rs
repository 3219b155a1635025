//! Two relays on one cursor, of which one is killed or halted: C1.

use rand::seq::IndexedRandom;

use super::kills;
use super::relay::Relay;
use super::scene::{LEASE, Scene};

/// Steps that a relay passes as long as it has a lane.
const STEPS: [&str; 6] =
    ["take_after_commit", "claimed", "delivered", "settle_before_commit", "settle_after_commit", "renewing"];

#[tokio::test]
async fn c1_a_relay_in_sqlite_takes_over_from_one_that_is_killed_again_and_again() {
    one_of_two_is_killed(Scene::sqlite("two relays in SQLite").await).await;
}

#[tokio::test]
async fn c1_a_relay_in_postgres_takes_over_from_one_that_is_killed_again_and_again() {
    let Some(scene) = Scene::postgres("two relays in PostgreSQL").await else { return };
    one_of_two_is_killed(scene).await;
}

async fn one_of_two_is_killed(mut scene: Scene) {
    scene.orders.lanes = 4;
    let survivor = scene.start("", true);
    for _ in 0..kills(80) {
        let step = *STEPS.choose(&mut scene.random).unwrap();
        scene.live_until(step, true).await;
    }
    scene.finish_with(vec![survivor]).await;
}

#[tokio::test]
async fn c1_a_relay_in_sqlite_that_was_halted_past_its_lease_changes_nothing() {
    the_owner_is_halted(Scene::sqlite("halted in SQLite").await).await;
}

#[tokio::test]
async fn c1_a_relay_in_postgres_that_was_halted_past_its_lease_changes_nothing() {
    let Some(scene) = Scene::postgres("halted in PostgreSQL").await else { return };
    the_owner_is_halted(scene).await;
}

#[tokio::test]
async fn c1_a_relay_to_rabbitmq_that_was_halted_past_its_lease_changes_nothing() {
    let Some(scene) = Scene::postgres("halted with RabbitMQ").await else { return };
    let Some(scene) = scene.into_broker().await else { return };
    the_owner_is_halted(scene).await;
}

/// The owner is halted with messages in its hands, the other takes over, and both go on.
async fn the_owner_is_halted(mut scene: Scene) {
    // Slow enough that there is always something under way.
    scene.orders.slowness_ms = 30;
    let relays = [scene.start("", true), scene.start("", true)];
    for _ in 0..3 {
        scene.write(300).await;
        let before = scene.log.stand().await.delivered;
        let stand = scene.until("under way", |stand| stand.delivered > before && stand.owner.is_some()).await;
        let owner = owner(&relays, stand.owner.as_deref());
        scene.halt(owner).await;
        let past = tokio::time::Instant::now() + LEASE * 2;
        let taken = stand.taken;
        scene.until("taken over", |stand| stand.taken > taken).await;
        tokio::time::sleep_until(past).await;
        owner.go_on();
    }
    let duplicates = scene.finish_with(relays.into()).await;
    // What the halted one had under way arrived twice; otherwise nothing was shown.
    assert!(duplicates > 0, "nobody was caught with messages in its hands");
}

/// A lease ends on the database's clock, so nothing that its owner has locked may outlive it there.
#[tokio::test]
async fn c1_a_relay_in_postgres_that_hangs_within_a_transaction_is_taken_over_all_the_same() {
    let steps = ["take_before_commit", "settle_before_commit", "renewing"];
    futures_util::future::join_all(steps.map(one_hangs)).await;
}

async fn one_hangs(step: &str) {
    let Some(mut scene) = Scene::postgres("hanging in PostgreSQL").await else { return };
    scene.write(200).await;
    let hangs = scene.start(&format!("{step}=1*sleep({})", (LEASE * 8).as_millis()), true);
    scene.until_locked().await;
    let began = tokio::time::Instant::now();
    let other = scene.start("", true);
    scene.until("taken over", |stand| stand.owner.as_deref() == Some("relay-2")).await;
    assert!(began.elapsed() < LEASE * 6, "{step}: taken over after {:?}", began.elapsed());
    scene.finish_with(vec![hangs, other]).await;
}

fn owner<'a>(relays: &'a [Relay; 2], name: Option<&str>) -> &'a Relay {
    match name {
        Some("relay-1") => &relays[0],
        Some("relay-2") => &relays[1],
        other => panic!("owned by {other:?}"),
    }
}

//! Every step, in every setup that passes it: C1, C4, D3, D4.

use outbox::failpoint::STEPS;

use super::kills;
use super::scene::Scene;

const HANDLER: [&str; 2] = ["handler_before_commit", "handler_after_commit"];

/// Steps of a source on a broker.
const BROKER: [&str; 2] = ["moved", "acknowledging"];

/// All steps of a source in a database but these.
fn without(steps: &[&str]) -> Vec<&'static str> {
    STEPS.iter().copied().filter(|step| !steps.contains(step) && !BROKER.contains(step)).collect()
}

#[tokio::test]
async fn c1_from_sqlite_to_a_file_nothing_is_lost_wherever_the_relay_is_killed() {
    let mut scene = Scene::sqlite("SQLite to lines").await;
    let steps = without(&[&HANDLER[..], &["published", "settle_set_aside"]].concat());
    scene.kill_at(&steps, kills(180)).await;
    scene.finish().await;
}

#[tokio::test]
async fn d3_from_sqlite_to_a_handler_every_effect_happens_once_wherever_it_is_killed() {
    let mut scene = Scene::sqlite("SQLite to a handler").await.into_effects().await;
    scene.kill_at(&without(&["published"]), kills(200)).await;
    scene.finish().await;
}

#[tokio::test]
async fn d3_from_postgres_to_a_handler_every_effect_happens_once_wherever_it_is_killed() {
    let Some(scene) = Scene::postgres("PostgreSQL to a handler").await else { return };
    let mut scene = scene.into_effects().await;
    scene.kill_at(&without(&["published"]), kills(220)).await;
    scene.finish().await;
}

#[tokio::test]
async fn d4_from_postgres_to_rabbitmq_nothing_is_lost_wherever_the_relay_is_killed() {
    let Some(scene) = Scene::postgres("PostgreSQL to RabbitMQ").await else { return };
    let Some(mut scene) = scene.into_broker().await else { return };
    let steps = without(&[&HANDLER[..], &["settle_set_aside"]].concat());
    scene.kill_at(&steps, kills(240)).await;
    scene.finish().await;
}

//! `/`: one sentence of truth, the pipes, and the last hour.

use super::scene::{HTTP, Scene};
use crate::program::RELAY;

#[tokio::test(flavor = "multi_thread")]
async fn e5_the_overview_tells_in_one_sentence_how_it_is_and_goes_on_by_itself() {
    let Some(scene) = Scene::open(&format!("{RELAY}{HTTP}")).await else { return };
    scene.program.make_folder("out");
    scene.goto("/").await;
    scene.sees("Healthy.").await;
    scene.sees("orders → lines").await;
    scene.page.until("document.querySelectorAll('[data-chart] canvas').length === 3").await.unwrap();
    // Nobody loads the page again: it is told.
    scene.program.send("a");
    scene.page.until("/Delivered\\s+1\\b/.test(document.querySelector('#live').innerText)").await.unwrap();
    let charts = scene.page.eval("fetch('/charts.json').then((answer) => answer.json())").await.unwrap();
    assert_eq!(charts["at"].as_array().map(Vec::len), charts["rate"].as_array().map(Vec::len), "{charts}");
    scene.picture("overview").await;
    scene.end();
}

//! `/`: one sentence of truth, the pipes, and the last hour; and what is around every page.

use super::scene::{HTTP, Scene, Store};
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
    let points = charts["at"].as_array().map(Vec::len);
    assert!(points > Some(0) && points == charts["rate"].as_array().map(Vec::len), "{charts}");
    scene.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_a_sink_that_is_away_is_named_in_the_sentence_and_so_is_what_is_dead() {
    let Some(store) = Store::open("unready_after = \"1s\"\nprobe_most = \"1s\"").await else { return };
    let scene = &store.scene;
    store.endpoint.answer_type("order.refused", 422);
    scene.program.ok(&["send", "--type", "order.refused", "--data", "{}"]);
    scene.until("/", "One message is dead").await;
    scene.sees("decide what becomes of it").await;
    // On every page, also where nobody counts.
    scene.goto("/audit").await;
    scene.sees("One message is dead").await;
    let Store { scene, endpoint } = store;
    drop(endpoint);
    scene.program.send("a");
    scene.until("/", "Pipe 'notify' is not ready: sink 'mailer' has been away").await;
    // While it is put in the place of the one before, it has other classes as well.
    scene.page.until("document.querySelector('#truth').classList.contains('failing')").await.unwrap();
    scene.sees("UNREACHABLE").await;
    scene.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_keys_lead_from_page_to_page_and_live_can_be_held() {
    let Some(scene) = Scene::open(&format!("{RELAY}{HTTP}")).await else { return };
    scene.goto("/").await;
    scene.page.until("document.querySelector('.live-dot').classList.contains('on')").await.unwrap();
    // Nobody is told what nobody can see.
    let turn = |hidden: bool| {
        format!(
            "Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }}); \
             document.dispatchEvent(new Event('visibilitychange'))"
        )
    };
    scene.page.eval(&turn(true)).await.unwrap();
    scene.page.until("!document.querySelector('.live-dot').classList.contains('on')").await.unwrap();
    scene.page.eval(&turn(false)).await.unwrap();
    scene.page.until("document.querySelector('.live-dot').classList.contains('on')").await.unwrap();
    scene.page.click("[data-live]").await.unwrap();
    scene.page.until("!document.querySelector('.live-dot').classList.contains('on')").await.unwrap();
    for (keys, path) in
        [("gm", "/messages"), ("gf", "/failures"), ("gp", "/pipes"), ("gq", "/queues"), ("go", "/")]
    {
        for key in keys.chars() {
            scene.page.key(&key.to_string()).await.unwrap();
        }
        scene.page.until(&format!("location.pathname === '{path}'")).await.unwrap();
        scene.page.until("document.readyState === 'complete'").await.unwrap();
    }
    scene.page.key("?").await.unwrap();
    scene.page.until("document.querySelector('#keys').open").await.unwrap();
    scene.page.key("Escape").await.unwrap();
    scene.page.until("!document.querySelector('#keys').open").await.unwrap();
    scene.goto("/messages").await;
    scene.page.key("/").await.unwrap();
    scene.page.until("document.activeElement.name === 'filter'").await.unwrap();
    scene.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_colours_are_those_of_the_system_until_somebody_chooses() {
    let Some(scene) = Scene::open(&format!("{RELAY}{HTTP}")).await else { return };
    let is_dark = "getComputedStyle(document.documentElement).colorScheme === 'dark'";
    scene.page.dark(true).await.unwrap();
    scene.goto("/pipes?").await;
    assert_eq!(scene.page.eval(is_dark).await.unwrap(), true);
    for (theme, dark) in [("dark", true), ("light", false)] {
        scene.page.click("button[name=theme]").await.unwrap();
        scene.page.until(&format!("document.documentElement.dataset.theme === '{theme}'")).await.unwrap();
        assert_eq!(scene.page.eval(is_dark).await.unwrap(), dark, "{theme}");
        assert!(scene.page.address().await.unwrap().contains("/pipes"), "one stays where one was");
    }
    scene.page.click("button[name=theme]").await.unwrap();
    scene.page.until("!document.documentElement.dataset.theme").await.unwrap();
    scene.end();
}

//! Every page, filled: in light and in dark, wide and on a phone; with pictures for the documents if somebody wants them.

use serde_json::Value;

use super::scene::{HTTP, Scene};
use crate::life::scene::Shop;

/// What stands wider than the screen; tables have their own way to scroll.
const TOO_WIDE: &str = r"(() => {
    const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
    const inside = (one) => one.closest('.scroll, pre, .places, .tabs, .uplot') === null;
    const over = (one) => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1;
    return wide ? Array.from(document.querySelectorAll('body *')).filter((one) => inside(one) && over(one))
        .map((one) => one.outerHTML.slice(0, 120)) : [];
})()";

/// Text that stands out less from its ground than AA asks for.
const TOO_FAINT: &str = r"(() => {
    const channels = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
    const linear = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const ground = (one) => {
        for (; one; one = one.parentElement) {
            const colour = channels(getComputedStyle(one).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const faint = [];
    for (const one of document.querySelectorAll('body *')) {
        const own = Array.from(one.childNodes).some((node) => node.nodeType === 3 && node.data.trim());
        if (!own || one.getClientRects().length === 0 || one.closest('.uplot, [disabled]')) continue;
        const [a, b] = [light(channels(getComputedStyle(one).color)), light(ground(one))];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5) faint.push(`${contrast.toFixed(2)} ${one.outerHTML.slice(0, 120)}`);
    }
    return faint;
})()";

/// Inputs and buttons that have no name for those who do not see them.
const NAMELESS: &str = r"Array.from(document.querySelectorAll('input:not([type=hidden]), select, textarea, button'))
    .filter((one) => !(one.labels && one.labels.length) && !one.getAttribute('aria-label') && !one.innerText.trim())
    .map((one) => one.outerHTML.slice(0, 120))";

const MORE: &str = r#"
[relay]
name = "shop-1"
[sources.failed]
on = "rabbit"
queue = "bills_error"
[sinks.errors]
on = "shop"
error_log = true
[pipes.note]
from = "failed"
to = "errors"
[sources.bills]
on = "rabbit"
queue = "bills"
bind = [{ exchange = "shop.events", keys = ["bill.*"] }]
retry = ["10m", "30m"]
dead = "bills_error"
[pipes.bill]
from = "bills"
to = "app"
[sinks.mailer]
http = "{url}"
private = true
[pipes.mail]
from = "orders"
to = "mailer"
"#;

/// A shop with something of everything.
async fn shop() -> Option<(Scene, Shop, Vec<String>)> {
    let endpoint = crate::endpoint::Endpoint::start().await;
    let more = format!("{}{HTTP}", MORE.replace("{url}", &endpoint.url));
    let mut shop = Shop::open("\"20m\"", &more).await?;
    shop.make_topology().await;
    for (kind, answer) in
        [("order.refused", 422), ("bill.lost", 410), ("bill.wrong", 422), ("order.late", 500)]
    {
        shop.endpoint.answer_type(kind, answer);
    }
    endpoint.answer_type("order.paid", 400);
    let data = r#"{"id": 90071992547409931, "customer": {"name": "Ada", "mail": "ada@example.com"}, "lines": [{"sku": "A-17", "price": 12.50}, {"sku": "B-2", "price": 0.10}], "express": true}"#;
    let mut ids = Vec::new();
    for (kind, count) in [
        ("order.created", 12),
        ("order.refused", 3),
        ("order.late", 2),
        ("order.paid", 4),
        ("bill.lost", 2),
        ("bill.wrong", 1),
    ] {
        for number in 0..count {
            let key = format!("customer-{}", 40 + number);
            let sent = shop.program.ok(&[
                "send",
                "--type",
                kind,
                "--key",
                &key,
                "--header",
                "x-tenant=north",
                "--data",
                data,
            ]);
            ids.push(sent.trim().to_owned());
        }
    }
    let program = std::mem::replace(&mut shop.program, crate::program::Program::new());
    // The second endpoint lives as long as the shop does.
    std::mem::forget(endpoint);
    let scene = Scene::of(program).await?;
    scene.until("/", "messages are dead").await;
    scene.until("/failures", "bill.lost").await;
    scene.until("/failures", "bill.wrong").await;
    scene.until("/queues", "dead letters\t3").await;
    Some((scene, shop, ids))
}

async fn nothing(scene: &Scene, expression: &str, what: &str) {
    let found: Value = scene.page.eval(expression).await.unwrap();
    let address = scene.page.address().await.unwrap();
    assert_eq!(found, Value::Array(Vec::new()), "{what} at {address}");
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_every_page_is_readable_in_light_and_dark_wide_and_on_a_phone() {
    let Some((scene, _shop, ids)) = shop().await else { return };
    let error = scene.program.json(&["errors", "list"])["errors"][0]["id"].as_str().unwrap().to_owned();
    // Of those that the mailer refuses.
    let dead = &ids[17];
    let pages = [
        ("messages", "/messages".to_owned()),
        ("message", format!("/messages/orders/{dead}")),
        ("failures", "/failures".to_owned()),
        (
            "preview",
            "/failures/preview?verb=retry&place=outbox&name=orders&filter=state%3Adead&back=%2Ffailures"
                .to_owned(),
        ),
        ("letters", "/failures/letters?source=work".to_owned()),
        ("error", format!("/failures/errors/errors/{error}")),
        ("pipes", "/pipes".to_owned()),
        ("queues", "/queues".to_owned()),
        ("doctor", "/doctor".to_owned()),
        ("audit", "/audit".to_owned()),
        ("config", "/config".to_owned()),
        ("overview", "/".to_owned()),
    ];
    scene.goto("/failures/preview?verb=retry&place=letters&name=work&back=%2Ffailures").await;
    scene.press("Retry 3 dead letters").await;
    scene.sees("Retried 3 of 3.").await;
    for (place, (name, path)) in pages.iter().enumerate() {
        // So that the charts have something to show.
        for number in 0..(place * 5) % 13 {
            scene.program.send(&format!("visitor-{number}"));
        }
        scene.goto(path).await;
        if path == "/" {
            // A chart of one point is a dull picture.
            let points =
                "fetch('/charts.json').then((answer) => answer.json()).then((all) => all.at.length > 3)";
            scene.page.until(points).await.unwrap();
            scene.goto(path).await;
        }
        for dark in [false, true] {
            scene.page.dark(dark).await.unwrap();
            nothing(&scene, TOO_FAINT, "text too faint").await;
        }
        scene.page.dark(false).await.unwrap();
        nothing(&scene, NAMELESS, "nameless").await;
        nothing(&scene, TOO_WIDE, "too wide").await;
        scene.picture(name).await;
        scene.page.size(390, 844).await.unwrap();
        scene.goto(path).await;
        nothing(&scene, TOO_WIDE, "too wide for a phone").await;
        scene.phone_picture(name).await;
        scene.page.size(1280, 800).await.unwrap();
    }
    scene.end();
}

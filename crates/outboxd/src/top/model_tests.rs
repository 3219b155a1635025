//! Two looks make a rate, and one sentence tells how it is.

use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-31T12:00:00Z";

fn cursor(pipe: &str, delivered: u64) -> Value {
    json!({
        "source": "orders", "pipe": pipe, "started": true, "owner": "shop-1:4711:9f", "lease_until": "2026-01-31T12:00:30Z",
        "lane": 0, "lanes": 1, "pending": 3, "lag_seconds": 0.4, "waiting": 1, "behind": 1, "dead": 0, "delivered": delivered,
    })
}

fn instance(pipe: &str, state: &str, beat_at: &str, delivered: u64) -> Value {
    json!({
        "instance": "shop-1:4711:9f", "pipe": pipe, "state": state, "cause": null, "beat_at": beat_at, "age_seconds": 1.0,
        "last_message_at": null, "started_at": NOW, "version": "0.1.0", "delivered": delivered, "failed": 0, "in_flight": 0,
    })
}

fn with(mut value: Value, key: &str, to: Value) -> Value {
    value[key] = to;
    value
}

/// A model after these looks, two seconds apart: cursors and instances of each.
fn after(looks: &[(Vec<Value>, Vec<Value>)], pipes: &[&str]) -> Model {
    let mut model = Model::default();
    let pipes: Vec<String> = pipes.iter().map(|pipe| (*pipe).to_owned()).collect();
    for ((cursors, instances), at) in looks.iter().zip([0.0, 2.0, 4.0, 6.0]) {
        let told = serde_json::from_value(json!({ "pipes": cursors, "instances": instances }))
            .expect("as status tells");
        model.look(&told, &pipes, at, NOW.parse().expect("a time"));
    }
    model
}

fn only(model: &Model) -> Line {
    let [line] = model.lines()[..] else { panic!("{model:#?}") };
    line.clone()
}

#[test]
fn e7_two_looks_make_a_rate() {
    let look = |delivered| (vec![cursor("relay", delivered)], vec![]);
    let one = only(&after(&[look(100)], &["relay"]));
    assert_eq!((one.rate, one.pending, one.waiting, one.dead), (None, Some(3), Some(2), Some(0)));
    let two = only(&after(&[look(100), look(150)], &["relay"]));
    assert_eq!(two.rate, Some(25.0));
    let four = only(&after(&[look(100), look(150), look(150), look(154)], &["relay"]));
    assert_eq!((four.rate, four.history), (Some(2.0), VecDeque::from([25.0, 0.0, 2.0])));
    let anew = only(&after(&[look(100), look(7)], &["relay"]));
    assert_eq!(anew.rate, None, "a cursor that began anew has no rate, and none below zero");
}

#[test]
fn e7_lanes_of_a_pipe_are_one_line() {
    let lane = |n: u64, owner: &str, lag: Value| {
        let cursor = with(with(cursor("relay", n), "owner", json!(owner)), "lag_seconds", lag);
        with(with(cursor, "lane", json!(n)), "lanes", json!(2))
    };
    let lanes = |n| (vec![lane(n, "a", json!(5.0)), lane(n + 10, "b", Value::Null)], vec![]);
    let line = only(&after(&[lanes(0), lanes(1)], &["relay"]));
    assert_eq!((line.pending, line.lag, line.rate), (Some(6), Some(5.0), Some(1.0)));
    assert_eq!(line.owner.as_deref(), Some("a +1"));
}

#[test]
fn e7_a_pipe_from_a_broker_is_told_by_its_beats() {
    let beat = |at: &str, delivered| (vec![], vec![instance("notify", "running", at, delivered)]);
    let first = beat("2026-01-31T11:59:00Z", 10);
    // The same beat, by an age that is not exact.
    let same = beat("2026-01-31T11:59:00.2Z", 10);
    let next = beat("2026-01-31T11:59:30Z", 40);
    let line = only(&after(&[first, same, next.clone(), next], &["notify"]));
    assert_eq!(
        (line.rate, line.history.len()),
        (Some(1.0), 1),
        "30 in 30 s, and it holds until the next beat"
    );
    assert_eq!((&*line.state, line.level, line.pending), ("running", Level::Well, None));
    assert_eq!(line.owner.as_deref(), Some("shop-1:4711:9f"));
}

#[test]
fn e7_the_rates_of_several_instances_are_added_each_by_its_own_beats() {
    let beat = |name: &str, state: &str, at: &str, delivered| {
        with(instance("notify", state, &format!("2026-01-31T11:{at}Z"), delivered), "instance", json!(name))
    };
    let look = |a: Value, b: Value| (vec![], vec![a, b]);
    let looks = [
        look(beat("a", "running", "59:00", 100), beat("b", "running", "58:55", 1_000)),
        look(beat("a", "running", "59:30", 130), beat("b", "running", "58:55", 1_000)),
        look(beat("a", "running", "59:30", 130), beat("b", "running", "59:25", 1_060)),
        look(beat("a", "offline", "59:30", 130), beat("b", "running", "59:25", 1_060)),
    ];
    let rates: Vec<_> = (1..=4).map(|count| only(&after(&looks[..count], &["notify"])).rate).collect();
    assert_eq!(rates, [None, Some(1.0), Some(3.0), Some(2.0)]);
    let line = only(&after(&looks, &["notify"]));
    assert_eq!(line.history, VecDeque::from([1.0, 3.0]), "a rate for every beat");
}

#[test]
fn e7_how_a_pipe_is() {
    let over = json!("2026-01-31T11:00:00Z");
    let quiet = || with(cursor("p", 0), "lease_until", over.clone());
    let free = || with(cursor("p", 0), "owner", Value::Null);
    let seen = |state: &str| vec![instance("p", state, NOW, 0)];
    let fresh = json!({ "source": "orders", "pipe": "p", "started": false, "lag_seconds": 60.0 });
    let error = json!({ "source": "orders", "pipe": "p", "error": "refused", "help": "start it" });
    for (cursors, instances, state, level) in [
        (vec![cursor("p", 0)], seen("running"), "running", Level::Well),
        (vec![cursor("p", 0)], vec![], "running", Level::Well),
        (vec![cursor("p", 0)], seen("waiting"), "waiting", Level::Uneasy),
        (vec![cursor("p", 0)], [seen("running"), seen("waiting")].concat(), "waiting", Level::Uneasy),
        (vec![cursor("p", 0)], [seen("offline"), seen("running")].concat(), "running", Level::Well),
        (vec![free()], seen("starting"), "starting", Level::Uneasy),
        (vec![free()], seen("paused"), "paused", Level::Well),
        (vec![quiet()], seen("offline"), "offline", Level::Bad),
        (vec![free()], seen("stopped"), "stopped", Level::Bad),
        (vec![quiet()], vec![], "gone", Level::Bad),
        (vec![free()], vec![], "not running", Level::Uneasy),
        (vec![fresh], vec![], "not started", Level::Uneasy),
        (vec![error], seen("running"), "unknown", Level::Bad),
        (vec![], vec![], "not started", Level::Uneasy),
        (vec![with(cursor("p", 0), "dead", json!(2))], seen("running"), "running", Level::Bad),
    ] {
        let line = only(&after(&[(cursors, instances)], &["p"]));
        assert_eq!((&*line.state, line.level), (state, level), "{line:#?}");
    }
}

#[test]
fn e7_one_sentence_tells_the_truth() {
    let well = after(&[(vec![cursor("relay", 0)], vec![])], &["relay"]);
    assert_eq!(well.truth(), (Level::Well, "All is well. Oldest message 0.4s.".to_owned()));
    let empty = with(cursor("relay", 0), "lag_seconds", Value::Null);
    assert_eq!(after(&[(vec![empty], vec![])], &["relay"]).truth().1, "All is well. Nothing waits.");
    let dead = with(cursor("mailer", 0), "dead", json!(3));
    let waiting = instance("hook", "waiting", NOW, 0);
    let bad = after(&[(vec![cursor("relay", 0), dead], vec![waiting])], &["hook", "mailer", "relay"]);
    let expected = "2 of 3 are not well: mailer (3 dead); hook (waiting)";
    assert_eq!(bad.truth(), (Level::Bad, expected.to_owned()));
    assert_eq!(Model::default().truth().0, Level::Uneasy);
}

#[test]
fn e7_what_comes_first() {
    let looks = |n: u64| {
        let slow = with(cursor("b", n), "lag_seconds", json!(60.0));
        let broken = with(cursor("c", 0), "dead", json!(1));
        (vec![cursor("a", n * 10), slow, broken], vec![])
    };
    let mut model = after(&[looks(0), looks(1)], &[]);
    let names = |model: &Model| model.lines().iter().map(|line| line.pipe.clone()).collect::<String>();
    let mut orders = Vec::new();
    for _ in 0..4 {
        orders.push((model.sort.as_str(), names(&model)));
        model.sort = model.sort.next();
    }
    let expected = [("trouble", "cab"), ("name", "abc"), ("rate", "abc"), ("lag", "bac")];
    assert_eq!(orders, expected.map(|(word, names)| (word, names.to_owned())));
    assert_eq!(model.sort, Sort::Trouble);
}

#[test]
fn e7_a_source_in_trouble_that_no_pipe_reads_is_shown() {
    let orphan =
        json!({ "source": "old", "pipe": null, "lag_seconds": null, "error": "refused", "help": "x" });
    let line = only(&after(&[(vec![orphan], vec![])], &[]));
    assert_eq!((&*line.pipe, &*line.state, line.cause.as_deref()), ("(old)", "unknown", Some("refused")));
}

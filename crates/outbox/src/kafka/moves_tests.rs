use std::sync::Arc;

use rdkafka::message::{Header, Headers as _, OwnedHeaders, OwnedMessage};

use super::*;
use crate::broker::Picks;
use crate::kafka::group_config::GroupConfig;
use crate::kafka::record::Record;
use crate::kafka::shelf::Entry;
use crate::message::header;
use crate::sink::{Cause, code};

const MINUTE: Duration = Duration::from_secs(60);

fn catalog(retry: &[Duration]) -> Catalog {
    let mut config = GroupConfig::new("t", "g");
    config.retry = retry.to_vec();
    Catalog::new(&config)
}

fn item(id: &str, key: &str) -> Item {
    let headers = OwnedHeaders::new()
        .insert(Header { key: header::EVENT_ID, value: Some(id) })
        .insert(Header { key: header::ERROR_ORIGIN, value: Some("elsewhere") });
    let at = rdkafka::Timestamp::CreateTime(1_700_000_000_000);
    let message = OwnedMessage::new(None, Some(key.into()), "t".into(), at, 4, 0, Some(headers));
    let place = Place { topic: 0, step: None, partition: 4 };
    let entry = Entry::new(place, 0, Record::copy(&message), "t", &Picks::default(), 1_000);
    Item { entry: Arc::new(entry), epoch: 1, attempts: 0, kept: false }
}

fn cause() -> Cause {
    Cause::new(code::HANDLER, "told to fail")
}

/// Where each goes: a topic, or how long it waits here.
fn ways(steps: &[Step]) -> Vec<String> {
    let way = |step: &Step| match step {
        Step::Done => "done".to_owned(),
        Step::Back => "back".to_owned(),
        Step::Keep { after, attempts } => format!("{after:?} {attempts}"),
        Step::Move(to) => to.topic.clone(),
    };
    steps.iter().map(way).collect()
}

#[test]
fn every_verdict_has_its_topic_and_those_behind_follow_the_first() {
    let items =
        [item("1", "a"), item("2", "a"), item("3", "b"), item("4", "c"), item("5", "d"), item("6", "e")];
    let verdicts = [
        Verdict::Retry { after: MINUTE * 7, attempts: 1, cause: cause() },
        Verdict::Behind,
        Verdict::Behind,
        Verdict::Dead { attempts: 3, cause: cause(), holds: true },
        Verdict::Released,
        Verdict::Done,
    ];
    let held = |_: &Place, key: &str| (key == "b").then_some(MINUTE);
    let steps = plan(&catalog(&[MINUTE, MINUTE * 5]), &items, &verdicts, held, Now::get());
    assert_eq!(ways(&steps), ["t.g.retry.5m", "t.g.retry.5m", "t.g.retry.1m", "t.g.dlq", "back", "done"]);
    let steps = plan(&catalog(&[]), &items, &verdicts, held, Now::get());
    assert_eq!(ways(&steps), ["420s 1", "420s 0", "60s 0", "t.g.dlq", "back", "done"]);
}

#[test]
fn a_moved_record_tells_what_happened_and_is_otherwise_the_same() {
    let (items, now) = ([item("1", "a")], Now::get());
    let named = |verdict: Verdict| {
        let steps = plan(&catalog(&[MINUTE]), &items, &[verdict], |_, _| None, now);
        let Step::Move(to) = &steps[0] else { panic!("{steps:?}") };
        let parcel = to.parcel(&items[0], Some(4));
        assert_eq!((parcel.partition, parcel.key, parcel.payload), (Some(4), Some(&b"a"[..]), None));
        let headers = parcel.headers.unwrap();
        let text = |value: Option<&[u8]>| String::from_utf8(value.unwrap().to_vec()).unwrap();
        headers.iter().map(|header| (header.key.to_owned(), text(header.value))).collect::<HashMap<_, _>>()
    };
    let retried = named(Verdict::Retry { after: MINUTE, attempts: 1, cause: cause() });
    assert_eq!(retried[header::RETRY_ORIGIN], "t");
    assert_eq!(retried[header::RETRY_ATTEMPTS], "1");
    assert_eq!(retried[header::DESTINATION], "t");
    assert_eq!(retried[header::FIRST_TIME], "2023-11-14T22:13:20Z");
    assert_eq!(retried[header::ERROR_ORIGIN], "elsewhere", "what another queue wrote on it is its own");
    let dead = named(Verdict::Dead { attempts: 4, cause: cause(), holds: false });
    assert_eq!((&*dead[header::ERROR_ORIGIN], &*dead[header::ERROR_ATTEMPTS]), ("t", "4"));
    assert_eq!(dead[header::EVENT_ID], "1");
    assert!(!dead.contains_key(header::RETRY_ORIGIN));
}

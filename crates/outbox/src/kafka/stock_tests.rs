use std::collections::BTreeMap;

use jiff::SignedDuration;
use rdkafka::message::{Header, OwnedHeaders, OwnedMessage};

use super::*;
use crate::broker::Picks;
use crate::kafka::catalog::Catalog;
use crate::kafka::group_config::GroupConfig;
use crate::kafka::moves::{Step, plan_early};
use crate::kafka::record::Record;
use crate::message::header;

const STEP: Duration = Duration::from_secs(60);

fn work(partition: i32) -> Place {
    Place { topic: 0, step: None, partition }
}

fn retry(partition: i32) -> Place {
    Place { topic: 0, step: Some(STEP), partition }
}

fn stock(messages: usize) -> Stock {
    Stock::new(Steps::new(&[STEP]), Room { messages, bytes: 1 << 20 })
}

fn all(count: i32) -> Vec<Place> {
    (0..count).map(work).chain((0..count).map(retry)).collect()
}

/// A record, written `ago`; in a retry topic it is due `wait` after that.
fn entry(place: Place, offset: i64, key: &str, ago: Duration, wait: Duration) -> Entry {
    let written = jiff::Timestamp::now() - SignedDuration::try_from(ago).unwrap();
    let due = (written + SignedDuration::try_from(wait).unwrap()).to_string();
    let id = format!("{place:?}-{offset}");
    let mut headers = OwnedHeaders::new().insert(Header { key: header::EVENT_ID, value: Some(&id) });
    if place.step.is_some() {
        headers = headers
            .insert(Header { key: header::RETRY_ORIGIN, value: Some("t") })
            .insert(Header { key: header::RETRY_ATTEMPTS, value: Some("2") })
            .insert(Header { key: header::RETRY_DUE, value: Some(&due) });
    }
    let at = rdkafka::Timestamp::CreateTime(written.as_millisecond());
    let key = (!key.is_empty()).then(|| key.as_bytes().to_vec());
    let message = OwnedMessage::new(Some(b"{}".to_vec()), key, "t".into(), at, 0, offset, Some(headers));
    Entry::new(place, offset, Record::copy(&message), "t", &Picks::default(), 1 << 20)
}

fn push(stock: &mut Stock, place: Place, offset: i64, key: &str) -> Fetch {
    stock.push(entry(place, offset, key, Duration::ZERO, STEP), Now::get())
}

fn offsets(handed: &Handed) -> Vec<(i32, i64)> {
    handed.items.iter().map(|item| (item.entry.place.partition, item.entry.offset)).collect()
}

fn settle(stock: &mut Stock, handed: &Handed, ends: &[End]) -> Vec<(Place, i64)> {
    let commits = stock.commits(&handed.items, ends);
    stock.settle(handed.number, &handed.items, ends, &commits, Now::get());
    commits
}

#[test]
fn partitions_take_turns_and_none_is_handed_out_twice() {
    let mut stock = stock(100);
    stock.assign(&all(2), Some(&BTreeMap::new()));
    for offset in 0..3 {
        push(&mut stock, work(0), offset, "");
        push(&mut stock, work(1), offset, "");
    }
    assert_eq!(push(&mut stock, work(7), 0, ""), Fetch::On, "what is not ours is not taken");
    let first = stock.take(2, Now::get()).unwrap();
    let second = stock.take(2, Now::get()).unwrap();
    assert_eq!((offsets(&first), offsets(&second)), (vec![(0, 0), (0, 1)], vec![(1, 0), (1, 1)]));
    assert_eq!(stock.take(9, Now::get()).map(|handed| offsets(&handed)), Some(vec![(0, 2), (1, 2)]));
    assert!(stock.take(9, Now::get()).is_none() && stock.wait(Now::get()).is_none());
    assert_eq!(settle(&mut stock, &second, &[End::Back, End::Done]), [(work(1), 0)], "never past the first");
    assert_eq!(settle(&mut stock, &first, &[End::Done, End::Moved]), [(work(0), 2)]);
    assert_eq!(stock.wait(Now::get()), Some(Duration::ZERO));
    assert_eq!(stock.take(9, Now::get()).map(|handed| offsets(&handed)), Some(vec![(1, 0)]));
}

#[test]
fn what_comes_back_to_us_with_its_offset_is_kept_and_the_rest_is_lost() {
    let mut stock = stock(100);
    let committed = BTreeMap::from([(work(0), 5), (work(1), 5)]);
    assert_eq!(stock.assign(&[work(0), work(1)], Some(&committed)), [(work(0), Some(5)), (work(1), Some(5))]);
    for offset in 5..8 {
        push(&mut stock, work(0), offset, "");
        push(&mut stock, work(1), offset, "");
    }
    let handed = stock.take(4, Now::get()).unwrap();
    assert_eq!(stock.standing(&handed.items), Standing::Ours);
    stock.revoke();
    assert_eq!(stock.standing(&handed.items), Standing::Unknown);
    assert!(stock.take(9, Now::get()).is_none(), "nothing is handed out while that is not known");
    assert!(stock.wait(Now::get()).is_none());
    // Both come back, and reading goes on where it was.
    let starts = stock.assign(&[work(0), work(1)], Some(&committed));
    assert_eq!(starts, [(work(0), Some(8)), (work(1), Some(8))]);
    assert_eq!(stock.standing(&handed.items), Standing::Ours);
    // Somebody else had the second meanwhile.
    stock.revoke();
    let other = BTreeMap::from([(work(0), 5), (work(1), 6)]);
    assert_eq!(stock.assign(&[work(0), work(1)], Some(&other)), [(work(0), Some(8)), (work(1), Some(6))]);
    assert_eq!(stock.standing(&handed.items), Standing::Lost);
    // What is still ours comes again, in order.
    stock.take_back_all(Now::get());
    let again = stock.take(9, Now::get()).unwrap();
    assert_eq!(offsets(&again), [(0, 5), (0, 6), (0, 7)]);
    // Offsets that could not be asked for may be anybody's.
    stock.revoke();
    assert_eq!(stock.assign(&[work(0)], None), [(work(0), None)]);
    assert_eq!(stock.standing(&again.items), Standing::Lost);
    stock.revoke();
    stock.assign(&[], Some(&BTreeMap::new()));
    assert_eq!(stock.standing(&again.items), Standing::Lost);
}

#[test]
fn a_partition_that_another_member_had_is_read_again_with_its_retry_topic_and_holds_no_key() {
    let (mut stock, places) = (stock(100), all(1));
    stock.assign(&places, Some(&BTreeMap::new()));
    push(&mut stock, retry(0), 0, "k");
    push(&mut stock, work(0), 0, "k");
    let held = stock.take(9, Now::get()).unwrap();
    assert_eq!(held.held, [true], "it waits for the one in the retry topic");
    // Somebody else has dealt with that one, and nobody has read on in the other.
    stock.revoke();
    let committed = BTreeMap::from([(retry(0), 1)]);
    assert_eq!(stock.assign(&places, Some(&committed)), [(work(0), None), (retry(0), Some(1))]);
    assert_eq!(stock.standing(&held.items), Standing::Lost);
    push(&mut stock, work(0), 0, "k");
    assert_eq!(stock.take(9, Now::get()).unwrap().held, [false]);
}

#[test]
fn a_log_that_was_cut_off_is_read_again_from_where_it_begins_and_the_old_one_is_lost() {
    let mut stock = stock(100);
    stock.assign(&[work(0), work(1)], Some(&BTreeMap::from([(work(0), 5)])));
    for offset in 5..8 {
        assert_eq!(push(&mut stock, work(0), offset, ""), Fetch::On);
    }
    let old = stock.take(2, Now::get()).unwrap();
    // The client begins anew; until it has gone back nothing is taken in, so that nothing is left out.
    assert_eq!(push(&mut stock, work(0), 2, ""), Fetch::Again);
    assert_eq!(push(&mut stock, work(0), 9, ""), Fetch::Again);
    assert_eq!(stock.again(), [(work(0), 2)]);
    stock.renew(&work(0), Now::get());
    assert!(stock.again().is_empty());
    assert_eq!(stock.standing(&old.items), Standing::Lost);
    assert_eq!(push(&mut stock, work(0), 2, ""), Fetch::On);
    let new = stock.take(9, Now::get()).unwrap();
    assert_eq!(offsets(&new), [(0, 2)], "not what was left of the old one");
    assert_eq!(settle(&mut stock, &new, &[End::Done]), [(work(0), 3)]);
    // The same where the offset that was committed is of the log that was.
    stock.revoke();
    stock.assign(&[work(0)], Some(&BTreeMap::from([(work(0), 9)])));
    assert_eq!(push(&mut stock, work(0), 0, ""), Fetch::On);
    let new = stock.take(9, Now::get()).unwrap();
    assert_eq!(settle(&mut stock, &new, &[End::Done]), [(work(0), 1)]);
}

#[test]
fn a_key_does_not_wait_for_the_log_that_was_but_for_what_lies_in_a_retry_topic() {
    let (mut stock, now) = (stock(100), Now::get());
    stock.assign(&all(1), Some(&BTreeMap::new()));
    push(&mut stock, work(0), 5, "lost");
    let old = stock.take(9, now).unwrap();
    settle(&mut stock, &old, &[End::Kept { due: now.instant + STEP, attempts: 1 }]);
    stock.lane(&work(0)).moved("lost", &old.items[0].entry.message.id, STEP, now.instant);
    push(&mut stock, retry(0), 0, "waits");
    assert_eq!(push(&mut stock, work(0), 0, "lost"), Fetch::Again);
    stock.renew(&work(0), now);
    // What is still out is of no log.
    assert!(stock.commits(&old.items, &[End::Done]).is_empty());
    stock.settle(old.number, &old.items, &[End::Done], &[(work(0), 6)], now);
    push(&mut stock, work(0), 0, "lost");
    push(&mut stock, work(0), 1, "waits");
    let new = stock.take(9, now).unwrap();
    assert_eq!((offsets(&new), new.held.as_slice()), (vec![(0, 0), (0, 1)], &[false, true][..]));
    assert_eq!(
        settle(&mut stock, &new, &[End::Done, End::Back]),
        [(work(0), 1)],
        "the old offset is no bound"
    );
}

#[test]
fn a_full_partition_is_not_fetched_until_there_is_room_and_stops_no_other() {
    let mut stock = stock(8);
    stock.assign(&[work(0), work(1)], Some(&BTreeMap::new()));
    let full: Vec<Fetch> = (0..5).map(|offset| push(&mut stock, work(0), offset, "")).collect();
    let (on, pause) = (Fetch::On, Fetch::Pause);
    assert_eq!(full, [on, on, on, pause, on], "told once, at its half of the room");
    assert_eq!(push(&mut stock, work(1), 0, ""), Fetch::On);
    assert_eq!(stock.roomy(), (vec![], true));
    stock.take(3, Now::get()).unwrap();
    assert_eq!(stock.roomy(), (vec![work(0)], false));
    assert!((5..9).any(|offset| push(&mut stock, work(0), offset, "") == pause));
    assert_eq!(stock.revoke(), [work(0)], "the client has to be told, for it remembers");
    assert_eq!(stock.roomy(), (vec![], false));
}

#[test]
fn a_record_of_a_retry_topic_comes_when_it_is_due_and_its_key_waits_for_it() {
    let (mut stock, now) = (stock(100), Now::get());
    stock.assign(&all(1), Some(&BTreeMap::new()));
    stock.push(entry(retry(0), 0, "k", STEP - Duration::from_secs(10), STEP), now);
    push(&mut stock, work(0), 0, "k");
    push(&mut stock, work(0), 1, "other");
    let handed = stock.take(9, now).unwrap();
    assert_eq!(
        (handed.set_aside, &*handed.held),
        (false, &[true, false][..]),
        "also what others moved there"
    );
    let wait = stock.wait(now).unwrap();
    // The record was made a moment after that.
    assert!(wait > Duration::from_secs(9) && wait < Duration::from_secs(11), "{wait:?}");
    let later = Now {
        clock: now.clock + SignedDuration::from_secs(11),
        instant: now.instant + Duration::from_secs(11),
    };
    let back = stock.take(9, later).unwrap();
    assert_eq!((back.set_aside, offsets(&back), back.items[0].attempts), (true, vec![(0, 0)], 2));
    settle(&mut stock, &back, &[End::Done]);
    settle(&mut stock, &handed, &[End::Back, End::Done]);
    assert_eq!(stock.take(9, later).unwrap().held, [false], "the key is free");
}

/// They come back one by one: the second must not be taken for the first while the first is out.
#[test]
fn what_follows_a_message_that_is_handed_out_is_not_the_first_of_its_key() {
    let (mut stock, now) = (stock(100), Now::get());
    stock.assign(&all(1), Some(&BTreeMap::new()));
    stock.push(entry(retry(0), 0, "k", STEP * 2, STEP), now);
    let first = stock.take(9, now).unwrap();
    stock.push(entry(retry(0), 1, "k", STEP * 2, STEP), now);
    stock.push(entry(retry(0), 2, "o", STEP * 2, STEP), now);
    let second = stock.take(9, now).unwrap();
    assert_eq!((first.set_aside, second.set_aside), (true, false));
    assert_eq!((offsets(&second), &*second.held), (vec![(0, 1)], &[false][..]));
    let third = stock.take(9, now).unwrap();
    assert_eq!((offsets(&third), third.set_aside), (vec![(0, 2)], true), "another key is not concerned");
    settle(&mut stock, &first, &[End::Done]);
    settle(&mut stock, &second, &[End::Back]);
    assert!(stock.take(9, now).unwrap().set_aside, "now it is the first");
}

#[test]
fn a_wait_that_is_longer_than_the_delay_goes_round() {
    let (mut stock, now) = (stock(100), Now::get());
    stock.assign(&all(1), Some(&BTreeMap::new()));
    stock.push(entry(retry(0), 0, "k", STEP * 2, STEP * 7), now);
    stock.push(entry(retry(0), 1, "", STEP * 2, STEP), now);
    assert!(stock.take(9, now).is_none(), "the first has to wait on");
    let early = stock.take_early(9, now).unwrap();
    assert_eq!(offsets(&early), [(0, 0)]);
    let mut config = GroupConfig::new("t", "g");
    config.retry = vec![STEP];
    let steps = plan_early(&Catalog::new(&config), &early.items, now);
    assert!(matches!(&steps[0], Step::Move(to) if to.topic == "t.g.retry.1m"), "{steps:?}");
    assert_eq!(offsets(&stock.take(9, now).unwrap()), [(0, 1)], "the next need not wait for it");
    assert!(stock.is_open(early.number));
    stock.take_back(early.number, now);
    assert!(!stock.is_open(early.number) && stock.take_early(9, now).is_some());
}

#[test]
fn what_is_kept_here_comes_again_with_its_attempts() {
    let (mut stock, now) = (stock(100), Now::get());
    stock.assign(&[work(0)], Some(&BTreeMap::new()));
    push(&mut stock, work(0), 0, "");
    push(&mut stock, work(0), 1, "");
    let handed = stock.take(9, now).unwrap();
    let kept = End::Kept { due: now.instant + STEP, attempts: 3 };
    assert_eq!(settle(&mut stock, &handed, &[kept, End::Done]), [(work(0), 0)], "its offset stays");
    assert!(stock.take(9, now).is_none());
    assert!(stock.wait(now).is_some_and(|wait| wait == STEP));
    let later = Now { instant: now.instant + STEP, ..now };
    for _ in 0..2 {
        let again = stock.take(9, later).unwrap();
        assert_eq!((again.set_aside, again.items[0].attempts), (true, 3));
        settle(&mut stock, &again, &[End::Back]);
    }
    let last = stock.take(9, Now { instant: later.instant + STEP, ..now }).unwrap();
    assert_eq!(settle(&mut stock, &last, &[End::Done]), [(work(0), 2)]);
}

#[test]
fn what_is_kept_here_takes_room_until_it_is_done() {
    // By count, and by weight where the count would allow more.
    for room in [Room { messages: 4, bytes: 1 << 20 }, Room { messages: 1000, bytes: 2000 }] {
        let (mut stock, now) = (Stock::new(Steps::new(&[STEP]), room), Now::get());
        stock.assign(&[work(0)], Some(&BTreeMap::new()));
        (0..3).for_each(|offset| assert_eq!(push(&mut stock, work(0), offset, ""), Fetch::On, "{room:?}"));
        let handed = stock.take(9, now).unwrap();
        let kept = End::Kept { due: now.instant + STEP, attempts: 1 };
        settle(&mut stock, &handed, &[kept.clone(), kept.clone(), kept]);
        assert_eq!(push(&mut stock, work(0), 3, ""), Fetch::Pause, "it is full: {room:?}");
        assert_eq!(stock.roomy(), (vec![], true));
        let later = Now { instant: now.instant + STEP, ..now };
        let again = stock.take(9, later).unwrap();
        settle(&mut stock, &again, &[End::Done, End::Done, End::Done]);
        assert_eq!(stock.roomy(), (vec![work(0)], false), "{room:?}");
    }
}

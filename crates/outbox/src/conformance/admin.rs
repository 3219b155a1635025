//! The clauses of an [`Admin`], on a log.

use std::time::Duration;

use super::source::SourceFixture;
use super::{assert_nothing, claim_some, dead, drain, named, names, retry, settle_all};
use crate::admin::{Admin, Filter, Repair, ReplayFrom, Stand};
use crate::error::ErrorKind;
use crate::message::{Message, MessageId};
use crate::policy::Verdict;
use crate::source::Source;

/// A fresh store with its administration.
pub trait AdminFixture: SourceFixture {
    /// The administration under test.
    type Admin: Admin;

    /// The administration.
    fn admin(&self) -> &Self::Admin;
}

/// Runs every clause of an administration against the fixture.
#[macro_export]
macro_rules! admin_suite {
    ($fixture:expr) => {
        $crate::conformance_tests! { admin, $fixture,
            m1_status_tells_of_every_cursor
            m2_list_and_show_find_messages_and_change_nothing
            m3_a_retried_message_is_due_at_once_and_its_key_still_waits
            m3_what_stands_behind_another_dead_one_stays_there
            m3_a_retried_message_goes_before_what_waits_by_itself
            m4_a_skipped_message_does_not_come_again_and_its_key_goes_on
            m5_a_replay_repeats_in_order_and_loses_nothing
            m6_a_purge_removes_only_what_nobody_needs
            m7_page_after_page_finds_what_a_list_finds
            m7_a_page_looks_at_no_more_than_it_was_told
        }
    };
}

fn of(cursor: &str) -> Filter {
    Filter { cursor: Some(cursor.to_owned()), ..Filter::default() }
}

pub async fn m1_status_tells_of_every_cursor(fixture: &impl AdminFixture) {
    assert!(fixture.admin().status().await.unwrap().is_empty());
    let source = fixture.source("busy");
    fixture.enqueue(vec![named("1", "k"), named("2", "k"), named("3", "x"), named("4", "y")]).await;
    let claim = claim_some(&source, 4).await.unwrap();
    let later = retry(Duration::from_secs(3600));
    source.settle(&claim, &[later, Verdict::Behind, dead(true), Verdict::Done]).await.unwrap();
    fixture.enqueue(vec![named("5", ""), named("6", "")]).await;
    let status = fixture.admin().status().await.unwrap();
    assert_eq!(status.len(), 1);
    let busy = &status[0];
    assert_eq!((busy.cursor.as_str(), busy.lane, busy.lanes), ("busy", 0, 1));
    assert_eq!((busy.pending, busy.waiting, busy.behind, busy.dead), (2, 1, 1, 1));
    assert!(busy.delivered.is_none_or(|delivered| delivered == 1), "{:?}", busy.delivered);
    assert!(busy.owner.is_some() && busy.lease_until.is_some());
    assert!(busy.lag_seconds.is_some_and(|lag| (0.0..60.0).contains(&lag)), "{:?}", busy.lag_seconds);
    source.close().await.unwrap();
    assert!(fixture.admin().status().await.unwrap()[0].owner.is_none());
}

pub async fn m2_list_and_show_find_messages_and_change_nothing(fixture: &impl AdminFixture) {
    let admin = fixture.admin();
    let saga = named("1", "k").saga("s-7", "2");
    let mut other = named("2", "k");
    other.kind = "other.kind".to_owned();
    fixture.enqueue(vec![saga.clone(), other.clone(), named("3", "z")]).await;
    let source = fixture.source("c");
    let claim = claim_some(&source, 2).await.unwrap();
    source.settle(&claim, &[dead(true), Verdict::Behind]).await.unwrap();

    let listed = admin.list(&of("c")).await.unwrap();
    let stands: Vec<_> = listed.iter().map(|entry| entry.stand).collect();
    assert_eq!(stands, [Stand::Dead, Stand::Behind, Stand::Pending]);
    assert_eq!(listed[0].cause.as_ref().unwrap().code, "HANDLER");
    let one = |filter: Filter| async move {
        let found = admin.list(&filter).await.unwrap();
        assert_eq!(found.len(), 1, "{filter:?}");
        found[0].id.clone()
    };
    assert_eq!(one(Filter { stand: Some(Stand::Dead), ..of("c") }).await, saga.id);
    assert_eq!(one(Filter { kind: Some("other.*".to_owned()), ..of("c") }).await, other.id);
    assert_eq!(
        one(Filter { header: Some(("x-saga-id".to_owned(), "s-7".to_owned())), ..of("c") }).await,
        saga.id
    );
    assert_eq!(one(Filter { code: Some("HANDLER".to_owned()), ..of("c") }).await, saga.id);
    assert_eq!(one(Filter { limit: 1, after: Some(listed[0].position), ..of("c") }).await, other.id);
    assert_eq!(admin.list(&Filter { key: Some("k".to_owned()), ..of("c") }).await.unwrap().len(), 2);

    let story = admin.show(&saga.id).await.unwrap().unwrap();
    assert_eq!(story.message.headers, saga.headers);
    assert_eq!((story.entries.len(), story.entries[0].stand), (1, Stand::Dead));
    assert!(admin.show(&MessageId::new()).await.unwrap().is_none());
    assert!(admin.show(&MessageId::from("not an id of ours")).await.unwrap().is_none());
    assert_eq!(names(&claim_some(&source, 10).await.unwrap().messages), ["3"], "nothing has moved");
}

pub async fn m3_a_retried_message_is_due_at_once_and_its_key_still_waits(fixture: &impl AdminFixture) {
    fixture.enqueue(vec![named("1", "k"), named("2", "k")]).await;
    let source = fixture.source("c");
    let claim = claim_some(&source, 10).await.unwrap();
    source.settle(&claim, &[dead(true), Verdict::Behind]).await.unwrap();
    assert_nothing(&source, "the first is dead and holds the second").await;
    let admin = fixture.admin();
    let dead_ones = Filter { stand: Some(Stand::Dead), ..of("c") };
    assert_eq!(admin.repair(&dead_ones, Repair::Retry, true).await.unwrap(), 1);
    assert_nothing(&source, "that was only a preview").await;
    assert_eq!(admin.repair(&dead_ones, Repair::Retry, false).await.unwrap(), 1);
    let came = drain(&source, 2).await;
    assert_eq!(names(&came), ["1", "2"]);
    assert_eq!(came[0].attempts, 0);
}

pub async fn m3_what_stands_behind_another_dead_one_stays_there(fixture: &impl AdminFixture) {
    fixture.enqueue(vec![named("1", "k"), named("2", "k"), named("3", "k")]).await;
    let source = fixture.source("c");
    let claim = claim_some(&source, 10).await.unwrap();
    source.settle(&claim, &[dead(true), dead(true), Verdict::Behind]).await.unwrap();
    let admin = fixture.admin();
    let by_id = |index: usize| Filter { id: Some(claim.messages[index].id.clone()), ..of("c") };
    assert_eq!(admin.repair(&by_id(0), Repair::Retry, false).await.unwrap(), 1);
    assert_eq!(names(&drain(&source, 1).await), ["1"]);
    assert_nothing(&source, "the second is dead and holds the third").await;
    assert_eq!(admin.repair(&by_id(1), Repair::Retry, false).await.unwrap(), 1);
    assert_eq!(names(&drain(&source, 2).await), ["2", "3"]);
}

pub async fn m3_a_retried_message_goes_before_what_waits_by_itself(fixture: &impl AdminFixture) {
    fixture.enqueue(vec![named("1", "k"), named("2", "k"), named("3", "k")]).await;
    let source = fixture.source("c");
    let claim = claim_some(&source, 10).await.unwrap();
    let soon = retry(Duration::from_millis(300));
    source.settle(&claim, &[dead(false), soon, Verdict::Behind]).await.unwrap();
    let by_id = Filter { id: Some(claim.messages[0].id.clone()), ..of("c") };
    assert_eq!(fixture.admin().repair(&by_id, Repair::Retry, false).await.unwrap(), 1);
    let again = claim_some(&source, 1).await.unwrap();
    assert_eq!(names(&again.messages), ["1"]);
    settle_all(&source, &again, &retry(Duration::from_millis(600))).await;
    assert_eq!(
        names(&drain(&source, 3).await),
        ["1", "2", "3"],
        "the second waits for the first, though it is due"
    );
}

pub async fn m4_a_skipped_message_does_not_come_again_and_its_key_goes_on(fixture: &impl AdminFixture) {
    fixture.enqueue(vec![named("1", "k"), named("2", "k")]).await;
    let source = fixture.source("c");
    let claim = claim_some(&source, 10).await.unwrap();
    source.settle(&claim, &[dead(true), Verdict::Behind]).await.unwrap();
    let admin = fixture.admin();
    let by_id = Filter { id: Some(claim.messages[0].id.clone()), ..Filter::default() };
    assert_eq!(admin.repair(&by_id, Repair::Skip, true).await.unwrap(), 1);
    assert_eq!(admin.repair(&by_id, Repair::Skip, false).await.unwrap(), 1);
    assert_eq!(names(&drain(&source, 1).await), ["2"]);
    fixture.enqueue(vec![named("3", "k")]).await;
    assert_eq!(names(&drain(&source, 1).await), ["3"]);
    assert_nothing(&source, "the first was skipped").await;
    assert_eq!(admin.repair(&by_id, Repair::Skip, false).await.unwrap(), 0);
}

pub async fn m5_a_replay_repeats_in_order_and_loses_nothing(fixture: &impl AdminFixture) {
    let messages: Vec<_> = (1..=5).map(|n| named(&n.to_string(), "k")).collect();
    let third = messages[2].id.clone();
    for message in messages {
        fixture.enqueue(vec![message]).await;
    }
    let admin = fixture.admin();
    let source = fixture.source("c");
    drain(&source, 5).await;
    fixture.enqueue(vec![named("6", "k")]).await;
    let from = ReplayFrom::Message(third);
    // The count may include messages that are pending anyway; it is what will come.
    assert_eq!(admin.replay("c", &from, true).await.unwrap(), 4);
    assert_eq!(admin.replay("c", &from, false).await.unwrap(), 4);
    let again = fixture.source("c");
    source.close().await.unwrap();
    assert_eq!(names(&drain(&again, 4).await), ["3", "4", "5", "6"]);
    admin.replay("c", &ReplayFrom::Start, false).await.unwrap();
    again.close().await.unwrap();
    assert_eq!(names(&drain(&fixture.source("c"), 6).await), ["1", "2", "3", "4", "5", "6"]);
    let error = admin.replay("nobody", &ReplayFrom::Start, false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = admin.replay("c", &ReplayFrom::Message(MessageId::new()), false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

pub async fn m6_a_purge_removes_only_what_nobody_needs(fixture: &impl AdminFixture) {
    let admin = fixture.admin();
    fixture.enqueue((0..10).map(|n| named(&n.to_string(), &n.to_string())).collect()).await;
    assert_eq!(admin.purge(Duration::ZERO, 100, false).await.unwrap(), 0, "nobody has read it");
    let (fast, slow) = (fixture.source("fast"), fixture.source("slow"));
    drain(&fast, 10).await;
    let claim = claim_some(&slow, 6).await.unwrap();
    let mut verdicts = vec![Verdict::Done; 6];
    verdicts[1] = dead(true);
    slow.settle(&claim, &verdicts).await.unwrap();
    assert_eq!(admin.purge(Duration::from_secs(3600), 100, false).await.unwrap(), 0, "all of it is young");
    assert_eq!(admin.purge(Duration::ZERO, 3, true).await.unwrap(), 3, "one step");
    assert_eq!(admin.purge(Duration::ZERO, 3, false).await.unwrap(), 3);
    assert_eq!(
        admin.purge(Duration::ZERO, 100, false).await.unwrap(),
        2,
        "not the dead one, nor what is pending"
    );
    assert_eq!(admin.purge(Duration::ZERO, 100, false).await.unwrap(), 0);
    assert_eq!(names(&drain(&slow, 4).await), ["6", "7", "8", "9"]);
    admin.repair(&of("slow"), Repair::Retry, false).await.unwrap();
    let claim = claim_some(&slow, 10).await.unwrap();
    assert_eq!(names(&claim.messages), ["1"]);
    settle_all(&slow, &claim, &Verdict::Done).await;
}

/// All pages of a filter, one after the other.
async fn pages(admin: &impl Admin, mut filter: Filter, look: Option<u32>) -> Vec<MessageId> {
    let mut found = Vec::new();
    for _ in 0..100 {
        let page = admin.page(&filter, look).await.unwrap();
        found.extend(page.entries.into_iter().map(|entry| entry.id));
        match page.next {
            Some(next) => filter.after = Some(next),
            None => return found,
        }
    }
    panic!("it has no end: {filter:?}");
}

pub async fn m7_page_after_page_finds_what_a_list_finds(fixture: &impl AdminFixture) {
    let (admin, source) = (fixture.admin(), fixture.source("c"));
    // A message is dead, the next waits behind it, some are done and some are not.
    let names: Vec<String> = (0..23).map(|number| number.to_string()).collect();
    let of_key = |name: &String| named(name, if name.len() == 1 { "k" } else { name });
    fixture.enqueue(names.iter().map(of_key).collect()).await;
    let claim = claim_some(&source, 15).await.unwrap();
    let mut verdicts = vec![Verdict::Done; claim.messages.len()];
    (verdicts[3], verdicts[4]) = (dead(true), Verdict::Behind);
    source.settle(&claim, &verdicts).await.unwrap();
    let stands = [None, Some(Stand::Dead), Some(Stand::Behind), Some(Stand::Done), Some(Stand::Pending)];
    for (stand, key) in stands.into_iter().flat_map(|stand| [(stand, None), (stand, Some("k".to_owned()))]) {
        let filter = Filter { stand, key, ..of("c") };
        let mut all: Vec<_> = admin.list(&filter).await.unwrap().into_iter().map(|entry| entry.id).collect();
        for newest_first in [false, true] {
            let filter = Filter { newest_first, ..filter.clone() };
            let listed: Vec<_> =
                admin.list(&filter).await.unwrap().into_iter().map(|entry| entry.id).collect();
            assert_eq!(listed, all, "{filter:?}");
            for (limit, look) in [(1, Some(1)), (2, Some(3)), (7, Some(5)), (100, Some(4)), (7, None)] {
                let found = pages(admin, Filter { limit, ..filter.clone() }, look).await;
                assert_eq!(found, all, "{limit} a page, {look:?} looked at: {filter:?}");
            }
            all.reverse();
        }
    }
}

pub async fn m7_a_page_looks_at_no_more_than_it_was_told(fixture: &impl AdminFixture) {
    let admin = fixture.admin();
    let last = Message { kind: "rare".to_owned(), ..named("last", "k") };
    let many = (0..20).map(|number| named(&number.to_string(), "k"));
    fixture.enqueue(many.chain([last.clone()]).collect()).await;
    let filter = Filter { kind: Some(last.kind.clone()), ..Filter::default() };
    let page = admin.page(&filter, Some(10)).await.unwrap();
    assert!(page.entries.is_empty() && page.is_cut && page.next.is_some(), "{page:?}");
    let page = admin.page(&Filter { newest_first: true, ..filter.clone() }, Some(10)).await.unwrap();
    assert_eq!((page.entries.len(), page.is_cut), (1, true), "the newest is seen at once: {page:?}");
    let page = admin.page(&filter, Some(100)).await.unwrap();
    assert_eq!((page.entries.len(), page.is_cut, page.next), (1, false, None), "{page:?}");
}

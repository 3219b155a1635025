//! The clauses of a [`Store`].

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::{claim_some, dead, drain, named, names, retry, settle_all};
use crate::error::ErrorKind;
use crate::message::{Message, header};
use crate::policy::Verdict;
use crate::source::Source;
use crate::store::Store;

/// A fresh, empty store, and the source through which a pipe delivers from it.
pub trait StoreFixture: Send + Sync {
    /// The store, as another process would make it.
    fn store(&self) -> Arc<dyn Store>;

    /// The source that the pipe reads.
    fn source(&self) -> Arc<dyn Source>;
}

/// Runs every clause of a store against the fixture.
#[macro_export]
macro_rules! store_suite {
    ($fixture:expr) => {
        $crate::conformance_tests! { store, $fixture,
            p1_what_is_admitted_comes_out_as_it_is
            p1_what_could_not_be_kept_is_not_admitted
            p2_what_is_kept_comes_out_in_order_all_of_it_or_nothing
            p3_a_key_is_told_of_until_its_messages_are_settled_for_good
            p3_a_dead_message_holds_its_key
            p4_a_key_that_has_nothing_is_not_told_of
            p5_an_id_is_kept_once
        }
    };
}

async fn kept(fixture: &impl StoreFixture, keys: &[&str]) -> Vec<String> {
    let (one, another) = (fixture.store(), fixture.store());
    let told: HashSet<String> = one.has_kept(keys).await.unwrap();
    assert_eq!(told, another.has_kept(keys).await.unwrap(), "every process is told the same");
    let mut told: Vec<_> = told.into_iter().collect();
    told.sort_unstable();
    told
}

async fn keep(fixture: &impl StoreFixture, messages: &[Message]) {
    let store = fixture.store();
    let admitted: Vec<Message> =
        messages.iter().map(|message| store.admit(message.clone()).unwrap()).collect();
    store.keep(&admitted).await.unwrap();
}

pub async fn p1_what_is_admitted_comes_out_as_it_is(fixture: &impl StoreFixture) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let given = Message::new("suite.tested", every_byte)
        .id("0190B3C4-7D2E-7A00-8000-0123456789AB")
        .key("a key")
        .content_type("application/x-anything")
        .occurred_at("2024-02-29T12:34:56.123456789Z".parse().unwrap())
        .header("x-tenant", "Ünïcode \"quoted\"")
        .header(header::TRACEPARENT, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let admitted = fixture.store().admit(given.clone()).unwrap();
    assert!(admitted.id.as_str().eq_ignore_ascii_case(given.id.as_str()), "{}", admitted.id);
    assert_eq!(fixture.store().admit(admitted.clone()).unwrap(), admitted, "it is as it is from then on");
    fixture.store().keep(std::slice::from_ref(&admitted)).await.unwrap();
    assert_eq!(drain(&fixture.source(), 1).await, [admitted]);
}

pub async fn p1_what_could_not_be_kept_is_not_admitted(fixture: &impl StoreFixture) {
    let store = fixture.store();
    let heavy = vec![b'x'; store.limits().payload + 1];
    for wrong in [Message::new("suite.tested", heavy), Message::new(" ", "{}"), named("nul", "a\0b")] {
        assert_eq!(store.admit(wrong).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

pub async fn p2_what_is_kept_comes_out_in_order_all_of_it_or_nothing(fixture: &impl StoreFixture) {
    keep(fixture, &[named("a1", "a"), named("b1", "b"), named("n1", "")]).await;
    let heavy = Message::new("suite.tested", vec![b'x'; fixture.store().limits().payload + 1]);
    assert!(fixture.store().keep(&[named("never", "a"), heavy]).await.is_err());
    for name in ["a2", "a3", "a4"] {
        keep(fixture, &[named(name, "a")]).await;
    }
    let came = names(&drain(&fixture.source(), 6).await);
    let of_a: Vec<_> = came.iter().filter(|name| name.starts_with('a')).collect();
    assert_eq!(of_a, ["a1", "a2", "a3", "a4"], "{came:?}");
    assert_eq!(came.len(), 6, "{came:?}");
}

pub async fn p3_a_key_is_told_of_until_its_messages_are_settled_for_good(fixture: &impl StoreFixture) {
    keep(fixture, &[named("a1", "a"), named("a2", "a"), named("b1", "b")]).await;
    assert_eq!(kept(fixture, &["a", "b", "c"]).await, ["a", "b"], "written");
    let source = fixture.source();
    let claim = claim_some(&source, 100).await.unwrap();
    assert_eq!(claim.messages.len(), 3);
    assert_eq!(kept(fixture, &["a", "b"]).await, ["a", "b"], "in flight");
    let verdict = |message: &Message| match &*message.payload {
        b"a1" => retry(Duration::from_millis(200)),
        b"a2" => Verdict::Behind,
        _ => Verdict::Done,
    };
    let verdicts: Vec<_> = claim.messages.iter().map(verdict).collect();
    source.settle(&claim, &verdicts).await.unwrap();
    assert_eq!(kept(fixture, &["a", "b"]).await, ["a"], "one waits, one is behind, one is done");
    let claim = claim_some(&source, 1).await.unwrap();
    assert_eq!((names(&claim.messages), kept(fixture, &["a"]).await), (vec!["a1".into()], vec!["a".into()]));
    settle_all(&source, &claim, &Verdict::Done).await;
    assert_eq!(kept(fixture, &["a"]).await, ["a"], "the one that was behind");
    assert_eq!(names(&drain(&source, 1).await), ["a2"]);
    assert_eq!(kept(fixture, &["a", "b"]).await, [""; 0], "everything is done");
    keep(fixture, &[named("a3", "a")]).await;
    assert_eq!(kept(fixture, &["b", "a"]).await, ["a"], "again");
}

pub async fn p3_a_dead_message_holds_its_key(fixture: &impl StoreFixture) {
    keep(fixture, &[named("a1", "a"), named("b1", "b")]).await;
    let source = fixture.source();
    let claim = claim_some(&source, 100).await.unwrap();
    let verdict = |message: &Message| if message.payload == "a1" { dead(true) } else { Verdict::Done };
    source.settle(&claim, &claim.messages.iter().map(verdict).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(kept(fixture, &["a", "b"]).await, ["a"]);
}

pub async fn p4_a_key_that_has_nothing_is_not_told_of(fixture: &impl StoreFixture) {
    assert_eq!(kept(fixture, &["a", "b"]).await, [""; 0]);
    keep(fixture, &[named("n1", ""), named("A1", "A")]).await;
    assert_eq!(kept(fixture, &["a", ""]).await, [""; 0], "another case is another key, and none is none");
    // A page that is just full, of a window that stays open behind it.
    let source = fixture.source();
    for _ in 0..2 {
        let claim = claim_some(&source, 1).await.unwrap();
        settle_all(&source, &claim, &Verdict::Done).await;
    }
    assert_eq!(kept(fixture, &["A", "a"]).await, [""; 0]);
    keep(fixture, &[named("a1", "a")]).await;
    assert_eq!(kept(fixture, &["A", "a"]).await, ["a"]);
}

pub async fn p5_an_id_is_kept_once(fixture: &impl StoreFixture) {
    let (one, two) = (named("one", "a"), named("two", "a"));
    keep(fixture, std::slice::from_ref(&one)).await;
    keep(fixture, &[one.clone(), two.clone()]).await;
    keep(fixture, &[two, one]).await;
    let source = fixture.source();
    assert_eq!(names(&drain(&source, 2).await), ["one", "two"]);
    assert!(source.claim(100).await.unwrap().messages.is_empty(), "neither comes again");
}

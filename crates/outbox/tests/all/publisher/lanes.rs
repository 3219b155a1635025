//! A log in lanes: each has its own progress, and a key is told of by its own lane.

use std::collections::BTreeSet;

use outbox::{Message, Source, Store, Verdict, postgres, sqlite};

use crate::postgres::Log;

const KEYS: usize = 12;

/// Delivers everything of one lane; gives the keys that came.
async fn drain(lane: &impl Source) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    // An empty claim may only mean that the lane was not ours yet, or that a window has ended.
    for _ in 0..4 {
        let claim = lane.claim(5).await.unwrap();
        if !claim.messages.is_empty() {
            lane.settle(&claim, &vec![Verdict::Done; claim.messages.len()]).await.unwrap();
        }
        keys.extend(claim.messages.into_iter().filter_map(|message| message.key));
    }
    keys
}

async fn each_key_is_told_of_by_its_lane<S: Source>(store: impl Store, lanes: Vec<S>) {
    let keys: BTreeSet<String> = (0..KEYS).map(|key| format!("k{key}")).collect();
    let asked: Vec<&str> = keys.iter().map(String::as_str).collect();
    let kept = async || store.has_kept(&asked).await.unwrap().into_iter().collect::<BTreeSet<_>>();
    for round in 0..3 {
        let messages: Vec<Message> = keys.iter().map(|key| Message::new("t", "").key(key)).collect();
        store.keep(&messages).await.unwrap();
        let mut left = keys.clone();
        for lane in &lanes {
            assert_eq!(kept().await, left, "round {round}");
            let done = drain(lane).await;
            assert!(!done.is_empty() && done.is_subset(&left), "round {round}: {done:?}");
            left.retain(|key| !done.contains(key));
        }
        assert_eq!((kept().await, left), (BTreeSet::new(), BTreeSet::new()), "round {round}");
    }
}

#[tokio::test]
async fn a_key_is_told_of_by_its_lane_in_postgres() {
    let Some(log) = Log::new().await else { return };
    let outbox: &postgres::Outbox = &log.outbox;
    each_key_is_told_of_by_its_lane(outbox.store("later"), outbox.cursor("later").lanes(3)).await;
}

#[tokio::test]
async fn a_key_is_told_of_by_its_lane_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let outbox = sqlite::Outbox::connect(&url).await.unwrap();
    outbox.migrate().await.unwrap();
    each_key_is_told_of_by_its_lane(outbox.store("later"), outbox.cursor("later").lanes(3)).await;
}

/// However much is kept, a question is answered; a key too many may be told of, and none too few.
#[tokio::test]
async fn a_long_backlog_counts_for_every_key() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let outbox = sqlite::Outbox::connect(&url).await.unwrap();
    outbox.migrate().await.unwrap();
    let store = outbox.store("later");
    let messages: Vec<Message> = (0..6_000).map(|n| Message::new("t", "").key(n)).collect();
    store.keep(&messages).await.unwrap();
    assert_eq!(store.has_kept(&["5999", "never"]).await.unwrap().len(), 2);
    let cursor = outbox.cursor("later");
    let claim = cursor.claim(2_000).await.unwrap();
    cursor.settle(&claim, &vec![Verdict::Done; claim.messages.len()]).await.unwrap();
    let kept = store.has_kept(&["5999", "7", "never"]).await.unwrap();
    assert_eq!(kept.into_iter().collect::<Vec<_>>(), ["5999"], "now it can be looked through");
}

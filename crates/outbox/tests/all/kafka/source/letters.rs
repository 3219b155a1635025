//! Dead letters in topics, seen and repaired by a person.

use std::time::Duration;

use async_trait::async_trait;
use outbox::conformance::letters::LettersFixture;
use outbox::conformance::source::SourceFixture;
use outbox::kafka::{DeadTopic, Group, GroupConfig};
use outbox::letters::{Act, DeadLetters, Deed};
use outbox::{Cause, ErrorKind, Message, MessageId, Source, Verdict, header};
use testbed::{Kafka, Record};

use super::conformance::Work;
use super::{apache, claim_of, config, enqueue, group, named, names, settle};

struct Desk {
    work: Work,
    letters: DeadTopic,
}

impl Desk {
    async fn new() -> Option<Self> {
        let work = Work::new().await?;
        let source = work.source("c");
        source.check().await.unwrap();
        source.close().await.unwrap();
        let config = config(&work.topic, &format!("{}-c", work.topic));
        let letters = DeadTopic::new(&work.kafka.url(), config).unwrap();
        Some(Self { work, letters })
    }
}

#[async_trait]
impl SourceFixture for Desk {
    type Source = Group;

    async fn enqueue(&self, messages: Vec<Message>) {
        self.work.enqueue(messages).await;
    }

    async fn roll_back(&self, messages: Vec<Message>) {
        self.work.roll_back(messages).await;
    }

    fn source(&self, cursor: &str) -> Group {
        self.work.source(cursor)
    }

    async fn expire(&self, cursor: &str) {
        self.work.expire(cursor).await;
    }
}

#[async_trait]
impl LettersFixture for Desk {
    type Letters = DeadTopic;

    fn letters(&self) -> &DeadTopic {
        &self.letters
    }

    fn origin(&self) -> &str {
        &self.work.topic
    }

    async fn put(&self, payload: &str) {
        let record = Record { payload: payload.into(), ..Record::default() };
        self.work.kafka.write(&format!("{0}.{0}-c.dlq", self.work.topic), vec![record]).await.unwrap();
    }

    async fn lose_origin(&self) {
        self.work.kafka.delete_topic(&self.work.topic).await.unwrap();
    }
}

outbox::letters_suite!(Desk::new());

fn deed(ids: &[MessageId], act: Act) -> Deed<'_> {
    Deed { ids, act, by: "ann", pace: None, tell: &|_| {} }
}

/// A topic of some partitions, with so many letters among its dead ones, each of a key of its own.
async fn with_letters(partitions: i32, count: usize) -> Option<(&'static Kafka, String, GroupConfig)> {
    let kafka = apache().await?;
    let topic = kafka.topic(partitions).await.unwrap();
    let config = config(&topic, &format!("{topic}-g"));
    let messages: Vec<Message> = (0..count).map(|n| named(n, &format!("k{}", n % 7))).collect();
    enqueue(kafka, &topic, &messages).await;
    let source = group(kafka, config.clone());
    let claims = claim_of(&source, count).await;
    let cause = Cause::new("BROKEN", "told to fail");
    settle(&source, &claims, |_| Verdict::Dead { attempts: 3, cause: cause.clone(), holds: false }).await;
    source.close().await.unwrap();
    Some((kafka, topic, config))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_letters_of_several_partitions_go_back_and_every_key_keeps_its_order() {
    let Some((kafka, topic, config)) = with_letters(3, 60).await else { return };
    let letters = DeadTopic::new(&kafka.url(), config.clone()).unwrap();
    let looked = letters.look(1_000).await.unwrap();
    assert_eq!((looked.letters.len(), looked.more), (60, false));
    let some = letters.look(10).await.unwrap();
    assert_eq!((some.letters.len(), some.more), (10, true));
    let ids: Vec<MessageId> = looked.letters.iter().rev().map(|letter| letter.message.id.clone()).collect();
    assert_eq!(letters.act(&deed(&ids, Act::Return)).await.unwrap().acted, 60);
    assert!(letters.look(1_000).await.unwrap().letters.is_empty());
    let source = group(kafka, config);
    let claims = claim_of(&source, 60).await;
    for key in 0..7 {
        let key = format!("k{key}");
        let of_key = claims.iter().flat_map(|claim| &claim.messages);
        let of_key: Vec<&Message> = of_key.filter(|message| message.key.as_ref() == Some(&key)).collect();
        let numbers: Vec<usize> = names(of_key).iter().map(|name| name.parse().unwrap()).collect();
        assert!(numbers.is_sorted() && !numbers.is_empty(), "{key}: {numbers:?}");
    }
    assert!(claims[0].messages[0].headers.contains_key(header::RETURNED_BY), "of {topic}");
    settle(&source, &claims, |_| Verdict::Done).await;
    source.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_a_consumer_of_the_dead_letters_passes_over_the_marks() {
    let Some((kafka, topic, config)) = with_letters(1, 3).await else { return };
    let letters = DeadTopic::new(&kafka.url(), config).unwrap();
    let first = letters.look(1).await.unwrap().letters[0].message.id.clone();
    assert_eq!(letters.act(&deed(&[first], Act::Discard)).await.unwrap().acted, 1);
    let dead = format!("{topic}.{topic}-g.dlq");
    enqueue(kafka, &dead, &[named("last", "k")]).await;
    let source = group(kafka, super::config(&dead, &format!("{topic}-errors")));
    let claims = claim_of(&source, 4).await;
    let came = names(claims.iter().flat_map(|claim| &claim.messages));
    assert_eq!(came, ["0", "1", "2", "last"], "no mark among them");
    settle(&source, &claims, |_| Verdict::Done).await;
    source.wait(Duration::from_millis(100)).await;
    source.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_a_topic_that_is_not_there_holds_no_letters_and_a_cluster_that_is_away_is_told() {
    let Some(kafka) = apache().await else { return };
    let topic = kafka.topic(1).await.unwrap();
    let mut config = config(&topic, &format!("{topic}-g"));
    let letters = DeadTopic::new(&kafka.url(), config.clone()).unwrap();
    let looked = letters.look(10).await.unwrap();
    assert!(looked.letters.is_empty() && !looked.more);
    assert!(letters.retries(10).await.unwrap().is_empty());
    config.timeout = Duration::from_millis(500);
    let error = DeadTopic::new("kafka://127.0.0.1:1", config).unwrap().look(1).await.unwrap_err();
    assert!(error.is_temporary() && error.kind() != ErrorKind::NotFound, "{}", error.chain());
}

//! What is made, what must be there, and where a group begins.

use std::time::Duration;

use outbox::kafka::{Group, Topology};
use outbox::{ErrorKind, Source, Start, Verdict};
use testbed::{Kafka, PASSWORD, STRANGER, USER};

use super::{apache, claim_of, config, enqueue, group, named, names, settle};

async fn refused(kafka: &Kafka, config: outbox::kafka::GroupConfig) -> String {
    let source = group(kafka, config);
    let error = source.claim(1).await.unwrap_err();
    assert_eq!((error.kind(), error.is_temporary()), (ErrorKind::Config, false), "{error}");
    error.to_string()
}

#[tokio::test]
async fn a_topic_that_is_read_must_be_there_and_is_never_made() {
    let Some(kafka) = apache().await else { return };
    let topic = Kafka::topic_name();
    let told = refused(kafka, config(&topic, &topic)).await;
    assert!(told.contains(&format!("topic '{topic}'")) && told.contains("create it"), "{told}");
    let again = refused(kafka, config(&topic, &topic)).await;
    assert_eq!(told, again, "it was not made");
}

#[tokio::test]
async fn d1_topics_for_retries_and_dead_letters_are_checked_or_made_as_the_topic_is() {
    let Some(kafka) = apache().await else { return };
    let topic = kafka.topic(3).await.unwrap();
    let mut check = config(&topic, &topic);
    check.topology = Topology::Check;
    let told = refused(kafka, check.clone()).await;
    assert!(told.contains("topology = \"declare\""), "{told}");
    let (short, long) = (format!("{topic}.{topic}.retry.100ms"), format!("{topic}.{topic}.retry.700ms"));
    kafka.create_topic(&short, 2, &[]).await.unwrap();
    kafka.create_topic(&long, 3, &[]).await.unwrap();
    kafka.create_topic(&format!("{topic}.{topic}.dlq"), 1, &[]).await.unwrap();
    let told = refused(kafka, check.clone()).await;
    assert!(told.contains(&short) && told.contains("has 2 partitions"), "{told}");
    // To declare mends it, and leaves the rest as it is.
    group(kafka, config(&topic, &topic)).check().await.unwrap();
    let partitions = async |name: &str| kafka.committed("nobody", name).await.unwrap().len();
    assert_eq!((partitions(&short).await, partitions(&long).await), (3, 3));
    assert_eq!(partitions(&format!("{topic}.{topic}.dlq")).await, 1);
    group(kafka, check).check().await.unwrap();
    // What is made is as the topic.
    let mut other = config(&topic, &topic);
    other.dead = Some(format!("{topic}.dead"));
    group(kafka, other).check().await.unwrap();
    assert_eq!(partitions(&format!("{topic}.dead")).await, 3);
}

#[tokio::test]
async fn a_group_that_begins_now_passes_over_what_was_there_and_nothing_else() {
    let Some(kafka) = apache().await else { return };
    let topic = kafka.topic(2).await.unwrap();
    enqueue(kafka, &topic, &(0..10).map(|n| named(format!("old {n}"), &n.to_string())).collect::<Vec<_>>())
        .await;
    let mut now = config(&topic, &topic);
    now.start = Start::Now;
    let first = group(kafka, now.clone());
    assert!(first.claim(10).await.unwrap().messages.is_empty());
    // It begins with its first claim, whatever becomes of that process.
    drop(first);
    let news: Vec<_> = (0..10).map(|n| named(format!("new {n}"), &n.to_string())).collect();
    enqueue(kafka, &topic, &news).await;
    now.client_name.push('b');
    let second = group(kafka, now);
    let claims = claim_of(&second, 10).await;
    let mut came: Vec<String> = claims.iter().flat_map(|claim| names(&claim.messages)).collect();
    came.sort();
    assert_eq!(came, names(&news));
    settle(&second, &claims, |_| Verdict::Done).await;
    second.close().await.unwrap();
    // Another group has its own progress.
    let other = group(kafka, config(&topic, "other"));
    claim_of(&other, 20).await;
}

#[tokio::test]
async fn d3_a_topic_that_is_made_anew_under_a_reader_is_read_from_its_beginning() {
    let Some(kafka) = apache().await else { return };
    let topic = kafka.topic(1).await.unwrap();
    let some = |name: &str, count: i32| -> Vec<_> {
        (0..count).map(|n| named(format!("{name} {n}"), &n.to_string())).collect()
    };
    enqueue(kafka, &topic, &some("old", 6)).await;
    let source = group(kafka, config(&topic, &topic));
    let claims = claim_of(&source, 6).await;
    settle(&source, &claims, |_| Verdict::Done).await;
    kafka.delete_topic(&topic).await.unwrap();
    while kafka.create_topic(&topic, 1, &[]).await.is_err() {
        tokio::task::yield_now().await;
    }
    let news = some("new", 3);
    enqueue(kafka, &topic, &news).await;
    let claims = claim_of(&source, 3).await;
    let came: Vec<String> = claims.iter().flat_map(|claim| names(&claim.messages)).collect();
    assert_eq!(came, names(&news));
    settle(&source, &claims, |_| Verdict::Done).await;
    assert_eq!(kafka.committed(&topic, &topic).await.unwrap(), [Some(3)]);
    source.close().await.unwrap();
}

#[tokio::test]
async fn two_topics_are_read_by_one_group_each_with_its_own_dead_letters() {
    let Some(kafka) = apache().await else { return };
    let (one, two) = (kafka.topic(1).await.unwrap(), kafka.topic(2).await.unwrap());
    let mut both = config(&one, &one);
    both.topics.push(two.clone());
    enqueue(kafka, &one, &[named("1", "k")]).await;
    enqueue(kafka, &two, &[named("2", "k")]).await;
    let source = group(kafka, both);
    let claims = claim_of(&source, 2).await;
    let cause = outbox::Cause::new("X", "no");
    settle(&source, &claims, |_| Verdict::Dead { attempts: 1, cause: cause.clone(), holds: false }).await;
    for (topic, payload) in [(&one, b"1"), (&two, b"2")] {
        let letters = kafka.records(&format!("{topic}.{one}.dlq"), 1).await.unwrap();
        assert_eq!((letters.len(), &*letters[0].payload), (1, &payload[..]));
    }
    source.close().await.unwrap();
}

#[tokio::test]
async fn a_login_that_may_not_read_is_denied_and_says_so() {
    let Some(kafka) = testbed::available(Kafka::start_guarded().await) else { return };
    let topic = kafka.topic(1).await.unwrap();
    let (port, password) = (kafka.guarded_port().unwrap(), PASSWORD.replace('/', "%2F").replace('@', "%40"));
    let source = |user: &str, password: &str| {
        let mut config = config(&topic, &topic);
        config.ca_file = kafka.ca_file();
        Group::new(&format!("kafka+ssl://{user}:{password}@127.0.0.1:{port}"), config).unwrap()
    };
    enqueue(&kafka, &topic, &[named("1", "k")]).await;
    let allowed = source(USER, &password);
    assert_eq!(claim_of(&allowed, 1).await.len(), 1);
    for (user, password) in [(STRANGER, password.as_str()), (USER, "canary")] {
        let error = source(user, password).claim(1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(!error.chain().contains("canary"), "{error}");
    }
    tokio::time::timeout(Duration::from_secs(10), allowed.close()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_group_whose_members_read_other_topics_cannot_begin_now_until_they_have_left() {
    let Some(kafka) = apache().await else { return };
    let (topic, other) = (kafka.topic(1).await.unwrap(), kafka.topic(1).await.unwrap());
    enqueue(kafka, &other, &[named("1", "k")]).await;
    enqueue(kafka, &topic, &[named("old", "k")]).await;
    let member = group(kafka, config(&other, &topic));
    claim_of(&member, 1).await;
    let mut now = config(&topic, &topic);
    now.start = Start::Now;
    let source = group(kafka, now);
    let error = source.claim(1).await.unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("a name of its own"), "{error}");
    member.close().await.unwrap();
    assert!(source.claim(1).await.unwrap().messages.is_empty());
    enqueue(kafka, &topic, &[named("new", "k")]).await;
    assert_eq!(names(&claim_of(&source, 1).await[0].messages), ["new"]);
    source.close().await.unwrap();
}

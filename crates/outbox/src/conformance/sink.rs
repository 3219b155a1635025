//! The clauses of a [`Sink`].

use std::collections::HashSet;

use async_trait::async_trait;

use super::{PATIENCE, named};
use crate::message::{Message, MessageId};
use crate::sink::{Outcome, Sink};

/// A fresh destination, the sink that delivers to it, and ways to disturb it.
#[async_trait]
pub trait SinkFixture: Send + Sync {
    /// The sink under test.
    type Sink: Sink;

    /// The sink.
    fn sink(&self) -> &Self::Sink;

    /// Everything that has arrived at the destination since the fixture was made, in the order in which it
    /// arrived; waits until that is `count` or more. One that came twice is there twice.
    async fn received(&self, count: usize) -> Vec<Message>;

    /// A message that this sink must reject, if there is such a thing.
    fn poison(&self) -> Option<Message>;

    /// Makes the destination unavailable; `false` if that cannot be done to it.
    async fn go_down(&self) -> bool;

    /// Makes it available again.
    async fn come_up(&self);
}

/// Runs every clause of a sink against the fixture.
#[macro_export]
macro_rules! sink_suite {
    ($fixture:expr) => {
        $crate::conformance_tests! { sink, $fixture,
            k1_one_outcome_per_message_in_order
            k2_delivered_means_that_the_other_side_has_it
            k3_a_rejected_message_does_not_harm_its_neighbours
            k4_unavailable_says_nothing_about_a_message
            k5_what_is_not_known_to_be_delivered_is_not_called_delivered
            k6_deliver_ends
            k7_after_an_outage_it_delivers_again
            k8_everything_arrives_as_it_was_given
        }
    };
}

fn some(count: usize) -> Vec<Message> {
    (0..count).map(|n| named(&format!("m{n:03}"), &format!("k{n}"))).collect()
}

async fn deliver(fixture: &impl SinkFixture, messages: &[Message]) -> Vec<Outcome> {
    tokio::time::timeout(3 * PATIENCE, fixture.sink().deliver(messages)).await.expect("deliver does not end")
}

async fn received(fixture: &impl SinkFixture, count: usize) -> Vec<Message> {
    let waiting = tokio::time::timeout(PATIENCE, fixture.received(count));
    waiting.await.unwrap_or_else(|_| panic!("fewer than {count} have arrived"))
}

/// Waits until these have arrived. A count alone would not tell: what was never called delivered may have arrived
/// as well, once or twice, and a destination may show things in its own time.
async fn assert_arrived(fixture: &impl SinkFixture, ids: &HashSet<MessageId>) {
    let waiting = async {
        loop {
            let came = fixture.received(ids.len()).await;
            if came
                .iter()
                .map(|message| &message.id)
                .collect::<HashSet<_>>()
                .is_superset(&ids.iter().collect())
            {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let arrived = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(arrived.is_ok(), "some of {} that were called delivered did not arrive", ids.len());
}

pub async fn k1_one_outcome_per_message_in_order(fixture: &impl SinkFixture) {
    let mut messages = some(7);
    if let Some(poison) = fixture.poison() {
        messages.insert(3, poison);
    }
    let outcomes = deliver(fixture, &messages).await;
    assert_eq!(outcomes.len(), messages.len());
    let rejected: Vec<_> =
        (0..outcomes.len()).filter(|n| matches!(outcomes[*n], Outcome::Rejected(_))).collect();
    assert_eq!(rejected, if messages.len() == 8 { vec![3] } else { vec![] });
    assert!(deliver(fixture, &[]).await.is_empty());
}

pub async fn k2_delivered_means_that_the_other_side_has_it(fixture: &impl SinkFixture) {
    let messages = some(50);
    assert_eq!(deliver(fixture, &messages).await, vec![Outcome::Delivered; 50]);
    assert_arrived(fixture, &messages.into_iter().map(|message| message.id).collect()).await;
}

pub async fn k3_a_rejected_message_does_not_harm_its_neighbours(fixture: &impl SinkFixture) {
    let Some(poison) = fixture.poison() else { return };
    for place in [0, 5, 10] {
        let mut messages = some(10);
        messages.insert(place, poison.clone().id(crate::MessageId::new()));
        let outcomes = deliver(fixture, &messages).await;
        for (index, outcome) in outcomes.iter().enumerate() {
            assert_eq!(matches!(outcome, Outcome::Rejected(_)), index == place, "{index}: {outcome:?}");
            assert_eq!(*outcome == Outcome::Delivered, index != place, "{index}: {outcome:?}");
        }
    }
    let came: HashSet<_> = received(fixture, 30).await.into_iter().map(|message| message.payload).collect();
    assert_eq!(came.len(), 10, "every neighbour arrived, and the poison did not");
}

pub async fn k4_unavailable_says_nothing_about_a_message(fixture: &impl SinkFixture) {
    if !fixture.go_down().await {
        return;
    }
    let messages = some(5);
    let outcomes = deliver(fixture, &messages).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unavailable(_))), "{outcomes:?}");
    fixture.come_up().await;
    assert_eq!(settle_down(fixture, &messages).await, vec![Outcome::Delivered; 5]);
}

pub async fn k5_what_is_not_known_to_be_delivered_is_not_called_delivered(fixture: &impl SinkFixture) {
    assert_eq!(deliver(fixture, &some(3)).await, vec![Outcome::Delivered; 3]);
    let messages = some(200);
    // The destination goes while messages are on their way.
    let (outcomes, down) = futures_util::future::join(deliver(fixture, &messages), fixture.go_down()).await;
    if !down {
        return;
    }
    fixture.come_up().await;
    let called: HashSet<_> = messages
        .iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| **outcome == Outcome::Delivered)
        .map(|(message, _)| message.id.clone())
        .collect();
    assert_eq!(settle_down(fixture, &some(1)).await, [Outcome::Delivered]);
    assert_arrived(fixture, &called).await;
}

pub async fn k6_deliver_ends(fixture: &impl SinkFixture) {
    fixture.go_down().await;
    assert_eq!(deliver(fixture, &some(2)).await.len(), 2);
    fixture.come_up().await;
}

pub async fn k7_after_an_outage_it_delivers_again(fixture: &impl SinkFixture) {
    assert_eq!(deliver(fixture, &some(1)).await, [Outcome::Delivered]);
    if !fixture.go_down().await {
        return;
    }
    deliver(fixture, &some(1)).await;
    fixture.come_up().await;
    assert_eq!(settle_down(fixture, &some(1)).await, [Outcome::Delivered]);
}

/// Delivers until it is no longer called unavailable, as a pipe would by its probes.
async fn settle_down(fixture: &impl SinkFixture, messages: &[Message]) -> Vec<Outcome> {
    let probing = async {
        loop {
            let outcomes = deliver(fixture, messages).await;
            if !outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unavailable(_))) {
                return outcomes;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(3 * PATIENCE, probing).await.expect("it does not come back")
}

pub async fn k8_everything_arrives_as_it_was_given(fixture: &impl SinkFixture) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let given = Message::new("suite.tested", every_byte)
        .key("a key")
        .content_type("application/x-anything")
        .occurred_at("2024-02-29T12:34:56Z".parse().unwrap())
        .header("x-tenant", "Ünïcode \"quoted\"")
        .correlation("c-1")
        .causation("c-0")
        .saga("s-1", "3")
        .header(crate::header::TRACEPARENT, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    assert_eq!(deliver(fixture, std::slice::from_ref(&given)).await, [Outcome::Delivered]);
    assert_eq!(received(fixture, 1).await, [given]);
}

//! Messages that the broker will not have, among others that it will: each gets the outcome it would have alone.

use std::sync::Arc;

use lapin::options::ExchangeDeleteOptions;
use lapin::types::AMQPValue;
use outbox::rabbitmq::{Exchange, Topology};
use outbox::{Message, Sink};
use testbed::RabbitMq;

use super::{Dice, EXCHANGE, Scene, delivered, order, orders, words};

/// A batch in which about every tenth message goes nowhere, and the outcomes that it must have.
fn mixed(dice: &mut Dice, count: usize) -> (Vec<Message>, Vec<&'static str>) {
    let pairs = (0..count).map(|n| match dice.below(10) {
        0 => (Message::new("nobody.cares", "x".repeat(dice.below(600))), "NO_ROUTE"),
        _ => (order(n), "delivered"),
    });
    pairs.unzip()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k2_unroutable_messages_in_pipelined_batches_are_found_exactly() {
    let Some(scene) = Scene::shared().await else { return };
    let scene = scene.with_orders().await;
    let sink = Arc::new(scene.sink());
    let calls = (1..=4u64).map(|seed| {
        let sink = Arc::clone(&sink);
        tokio::spawn(async move {
            let mut dice = Dice(seed * 7_919);
            let mut ids = Vec::new();
            for _ in 0..30 {
                let (messages, expected) = mixed(&mut dice, 300);
                let outcomes = sink.deliver(&messages).await;
                assert_eq!(words(&outcomes), expected, "seed {seed}");
                ids.extend(delivered(&messages, &outcomes));
            }
            ids
        })
    });
    let mut expected = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        expected.extend(call.await.unwrap());
    }
    let arrived = scene.drain_ids("orders").await;
    assert_eq!(arrived.len(), expected.len());
    assert!(arrived.values().all(|count| *count == 1), "nothing twice when nothing failed");
    assert!(expected.iter().all(|id| arrived.contains_key(id)));
}

#[tokio::test]
async fn a_queue_that_is_unbound_is_no_route_until_it_is_bound_again() {
    let Some(scene) = Scene::shared().await else { return };
    let scene = scene.with_orders().await;
    let sink = scene.sink();
    assert_eq!(words(&sink.deliver(&orders(3)).await), ["delivered"; 3]);
    scene.unbind("orders", "order.#").await;
    let outcomes = sink.deliver(&orders(3)).await;
    assert_eq!(words(&outcomes), ["NO_ROUTE"; 3]);
    assert!(format!("{outcomes:?}").contains("no queue is bound for the routing key 'order.created'"));
    scene.bind("orders", "order.#").await;
    assert_eq!(words(&sink.deliver(&orders(3)).await), ["delivered"; 3]);
    assert_eq!(scene.drain("orders").await.len(), 6);
}

#[tokio::test]
async fn a_deleted_exchange_is_unavailable_and_declared_again_by_the_next_call() {
    let Some(scene) = Scene::shared().await else { return };
    let scene = scene.with_orders().await;
    let mut config = scene.config();
    config.queues = vec![outbox::rabbitmq::QueueConfig::new("orders", ["order.#"])];
    let declaring = Exchange::new(&scene.url, config.clone()).unwrap();
    config.topology = Topology::Check;
    let checking = Exchange::new(&scene.url, config).unwrap();
    for sink in [&declaring, &checking] {
        assert_eq!(words(&sink.deliver(&orders(2)).await), ["delivered"; 2]);
    }
    scene.channel.exchange_delete(EXCHANGE.into(), ExchangeDeleteOptions::default()).await.unwrap();
    assert_eq!(words(&checking.deliver(&orders(300)).await), ["~NO_EXCHANGE"; 300]);
    assert_eq!(words(&checking.deliver(&orders(1)).await), ["~NO_EXCHANGE"], "it is not ours to make");
    let outcomes = declaring.deliver(&orders(300)).await;
    assert_eq!(words(&outcomes), ["~NO_EXCHANGE"; 300]);
    assert!(format!("{outcomes:?}").contains("no exchange 'shop.events'"), "{:?}", outcomes[0]);
    assert_eq!(words(&declaring.deliver(&orders(300)).await), ["delivered"; 300]);
    assert_eq!(words(&checking.deliver(&orders(1)).await), ["delivered"]);
    assert_eq!(scene.drain("orders").await.len(), 305);
}

#[tokio::test]
async fn a_full_queue_refuses_what_does_not_fit_and_all_refused_is_an_outage() {
    let Some(scene) = Scene::shared().await else { return };
    let scene = scene.with_orders().await;
    let full = [
        ("x-max-length", AMQPValue::LongInt(10)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    scene.queue("small", "small.#", &full).await;
    let sink = scene.sink();
    let small = |count| (0..count).map(|_| Message::new("small.thing", "")).collect::<Vec<_>>();
    // The broker lets a few more in than the length says while it is busy; then it refuses all.
    let mut taken = 0;
    let outcomes = loop {
        let messages = small(50);
        let outcomes = sink.deliver(&messages).await;
        let now = delivered(&messages, &outcomes).len();
        taken += now;
        if now == 0 {
            break outcomes;
        }
        assert!(words(&outcomes).iter().all(|word| word == "delivered" || word == "REFUSED"), "{outcomes:?}");
    };
    assert!(taken >= 10, "{taken}");
    assert_eq!(words(&outcomes), ["~REFUSED"; 50]);
    let mut messages = small(3);
    messages.insert(1, order(1));
    assert_eq!(words(&sink.deliver(&messages).await), ["REFUSED", "delivered", "REFUSED", "REFUSED"]);
    assert_eq!(scene.drain("small").await.len(), taken);
    assert_eq!(words(&sink.deliver(&small(1)).await), ["delivered"]);
}

#[tokio::test]
async fn what_the_user_may_not_do_is_forbidden_for_all_or_for_some_keys() {
    let Some(rabbit) = testbed::rabbitmq().await else { return };
    let Some(scene) = Scene::shared().await else { return };
    let scene = scene.with_orders().await;
    let (user, vhost) = (scene.vhost.name(), scene.vhost.name());
    rabbit.ctl(&["add_user", user, "s3cret"]).await.unwrap();
    rabbit.ctl(&["set_permissions", "-p", vhost, user, "", ".*", ".*"]).await.unwrap();
    rabbit.ctl(&["set_topic_permissions", "-p", vhost, user, EXCHANGE, "^order", ".*"]).await.unwrap();
    let url = scene.url.replace("guest:guest", &format!("{user}:s3cret"));
    let mut config = scene.config();
    let declaring = Exchange::new(&url, config.clone()).unwrap();
    let outcomes = declaring.deliver(&orders(2)).await;
    assert_eq!(words(&outcomes), ["~FORBIDDEN"; 2]);
    assert!(!format!("{outcomes:?}").contains("s3cret"));
    config.topology = Topology::Check;
    let sink = Exchange::new(&url, config.clone()).unwrap();
    let mut messages = orders(20);
    messages[7].kind = "secret.thing".into();
    let mut expected = vec!["delivered"; 20];
    expected[7] = "FORBIDDEN";
    assert_eq!(words(&sink.deliver(&messages).await), expected);
    rabbit.ctl(&["set_permissions", "-p", vhost, user, "", "", ".*"]).await.unwrap();
    let sink = Exchange::new(&url, config).unwrap();
    assert_eq!(words(&sink.deliver(&orders(20)).await), ["~FORBIDDEN"; 20]);
}

/// The broker takes less than we think, and closes the channel over each message that is larger: that harms
/// neither the other messages of the call nor other calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k3_a_body_too_large_at_any_place_is_refused_alone() {
    let Some(rabbit) = testbed::available(RabbitMq::start().await) else { return };
    rabbit.ctl(&["eval", "application:set_env(rabbit, max_message_size, 50000)."]).await.unwrap();
    let scene = Scene::at(rabbit.vhost().await.unwrap()).await.with_orders().await;
    let sink = scene.sink();
    let mut dice = Dice(3);
    for round in 0..15 {
        let (mut messages, mut expected) = mixed(&mut dice, 120);
        for _ in 0..=dice.below(3) {
            let at = dice.below(120);
            messages[at] = Message::new("order.created", "x".repeat(50_001 + dice.below(400_000)));
            expected[at] = "TOO_LARGE!";
        }
        let outcomes = sink.deliver(&messages).await;
        assert_eq!(
            words(&outcomes),
            expected,
            "round {round}: {:?}",
            outcomes.iter().find(|o| matches!(o, outbox::Outcome::Unavailable(_)))
        );
        let arrived = scene.drain_ids("orders").await;
        let done = delivered(&messages, &outcomes);
        assert_eq!(arrived.keys().cloned().collect::<std::collections::BTreeSet<_>>(), done);
    }
    let poison = async {
        for _ in 0..20 {
            let mut messages: Vec<Message> =
                (0..80).map(|_| Message::new("order.big", "x".repeat(45_000))).collect();
            messages[dice.below(5)] = Message::new("order.big", "x".repeat(50_001));
            let outcomes = sink.deliver(&messages).await;
            let refused = words(&outcomes).iter().filter(|word| *word == "TOO_LARGE!").count();
            assert_eq!(refused, 1, "{:?}", outcomes.last());
        }
    };
    let clean = async {
        loop {
            assert_eq!(
                words(&sink.deliver(&orders(100)).await),
                ["delivered"; 100],
                "another call, untouched"
            );
        }
    };
    tokio::select! {
        () = poison => {}
        () = clean => {}
    }
    let own = Message::new("order.created", "x".repeat(16 * 1024 * 1024 + 1));
    let headers = order(1).header("h", "x".repeat(200_000));
    assert_eq!(
        words(&sink.deliver(&[own, headers, order(2)]).await),
        ["TOO_LARGE!", "TOO_LARGE!", "delivered"]
    );
}

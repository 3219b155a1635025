//! The handler that is written in SQL, on real databases.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::sync::Arc;

use async_trait::async_trait;
use outbox::sql::{Kind, Statements};
use outbox::{Message, Outcome, Rejection, Sink, code};
use serde_json::json;

/// A database with tables of an application in it:
/// `orders (id unique, qty whole number, doc JSON, at a time, note text)`, `stock (sku, left_over)`.
#[async_trait]
trait Shop: Sized {
    const KIND: Kind;
    async fn new() -> Option<Self>;
    fn sink(&self, statements: Statements) -> Arc<dyn Sink>;
    async fn run(&self, sql: &str);
    /// One cell, as text.
    async fn text(&self, sql: &str) -> String;
}

const ORDER: &str = "INSERT INTO orders (id, qty, doc, at, note) -- ':id'
    VALUES (:id, :payload.qty, :payload, :time, :payload.note?);";
const STOCK: &str = "UPDATE stock SET left_over = left_over - :payload.qty WHERE sku = :payload.sku";

fn sink<S: Shop>(shop: &S, texts: &[&str]) -> Arc<dyn Sink> {
    shop.sink(Statements::parse(S::KIND, texts).unwrap())
}

fn order(qty: impl Into<serde_json::Value>) -> Message {
    Message::json("order.placed", &json!({ "sku": "a", "qty": qty.into(), "it's": "'; drop table orders" }))
        .unwrap()
}

/// Waits for what must come.
async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            // MariaDB shows its locks as they were until nobody has looked for a tenth of a second.
            tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await.expect("it comes");
}

fn rejection(outcome: &Outcome) -> &Rejection {
    let Outcome::Rejected(rejection) = outcome else { panic!("{outcome:?}") };
    rejection
}

async fn d3_effects_and_ids_are_one<S: Shop>() {
    let Some(shop) = S::new().await else { return };
    let sink = sink(&shop, &[ORDER, STOCK]);
    let messages: Vec<_> = (1..=20).map(order).collect();
    let at = messages[3].occurred_at;
    for _ in 0..2 {
        assert_eq!(sink.deliver(&messages).await, vec![Outcome::Delivered; 20]);
        assert_eq!(sink.deliver(&messages[3..4]).await, [Outcome::Delivered]);
        let counts = "SELECT concat((SELECT count(*) FROM orders), ' ', (SELECT sum(qty) FROM orders), ' ',
            (SELECT left_over FROM stock WHERE sku = 'a'), ' ', (SELECT count(*) FROM orders WHERE note IS NULL))";
        assert_eq!(shop.text(counts).await, "20 210 790 20");
    }
    let doc = shop.text(&format!("SELECT doc FROM orders WHERE id = '{}'", messages[3].id)).await;
    assert_eq!(serde_json::from_str::<serde_json::Value>(&doc).unwrap()["it's"], "'; drop table orders");
    let written = shop.text(&format!("SELECT at FROM orders WHERE id = '{}'", messages[3].id)).await;
    let second = at.strftime("%H:%M:%S").to_string();
    assert!(written.contains(&second), "{written} {at}");
}

async fn k3_bad_input_is_refused_alone_with_the_field_named<S: Shop>(wrong_type: &str) {
    let Some(shop) = S::new().await else { return };
    let sink = sink(&shop, &[ORDER, STOCK]);
    let lacks = Message::json("order.placed", &json!({ "qty": 1, "doc": "s3cret" })).unwrap();
    let bad = [
        (Message::new("order.placed", ""), ":payload.qty: the payload is empty"),
        (Message::new("order.placed", "s3cret {"), ":payload.qty: the payload is no JSON"),
        (Message::new("order.placed", vec![0xff, 0xfe]), ":payload.qty: the payload is no JSON"),
        (lacks, ":payload.sku: the message has none"),
        (order("s3cret"), wrong_type),
    ];
    for (count, (message, part)) in bad.into_iter().enumerate() {
        let outcomes = sink.deliver(&[order(1), message.clone(), order(1)]).await;
        assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Delivered, &Outcome::Delivered), "{part}");
        for outcome in [&outcomes[1], &sink.deliver(std::slice::from_ref(&message)).await[0]] {
            let rejection = rejection(outcome);
            assert!(rejection.permanent && rejection.cause.code == code::UNFIT, "{rejection:?}");
            assert!(rejection.cause.detail.contains(part), "{rejection:?}");
            assert!(!rejection.cause.detail.contains("s3cret"), "{rejection:?}");
        }
        let orders = 2 * (count + 1);
        let left = format!("{} {orders}", 1000 - orders);
        let counts = "SELECT concat((SELECT left_over FROM stock WHERE sku = 'a'), ' ', (SELECT count(*) FROM orders))";
        assert_eq!(shop.text(counts).await, left, "{part}");
    }
}

async fn k4_a_missing_table_charges_nobody_and_is_waited_for<S: Shop>() {
    let Some(shop) = S::new().await else { return };
    let sink = sink(&shop, &[ORDER, "INSERT INTO later (id) VALUES (:id)"]);
    let messages = [order(1), order(2)];
    for count in [1, 2] {
        for outcome in sink.deliver(&messages[..count]).await {
            assert!(
                matches!(&outcome, Outcome::Unavailable(cause) if cause.detail.contains("later")),
                "{outcome:?}"
            );
        }
    }
    assert_eq!(shop.text("SELECT concat(count(*), '') FROM orders").await, "0");
    shop.run("CREATE TABLE later (id varchar(36))").await;
    assert_eq!(sink.deliver(&messages).await, vec![Outcome::Delivered; 2]);
    assert_eq!(shop.text("SELECT concat(count(*), '') FROM later").await, "2");
}

async fn k3_what_a_constraint_objects_to_may_come_again<S: Shop>() {
    let Some(shop) = S::new().await else { return };
    let sink = sink(&shop, &["INSERT INTO stock (sku, left_over) VALUES (:payload.sku, :payload.qty)"]);
    let other = Message::json("stock.came", &json!({ "sku": "b", "qty": 5 })).unwrap();
    let messages = [order(7), other];
    let outcomes = sink.deliver(&messages).await;
    assert_eq!(outcomes[1], Outcome::Delivered);
    let rejection = rejection(&outcomes[0]);
    assert!(!rejection.permanent && rejection.cause.code == code::REFUSED, "{rejection:?}");
    shop.run("DELETE FROM stock WHERE sku = 'a'").await;
    assert_eq!(sink.deliver(&messages).await, vec![Outcome::Delivered; 2]);
    assert_eq!(shop.text("SELECT concat(sum(left_over), '') FROM stock").await, "12");
}

/// One `#[tokio::test]` for each of what holds of every database.
macro_rules! for_every_database {
    ($shop:ty, $wrong_type:expr) => {
        #[tokio::test]
        async fn d3_effects_and_ids_are_one() {
            crate::sql::d3_effects_and_ids_are_one::<$shop>().await;
        }
        #[tokio::test]
        async fn k3_bad_input_is_refused_alone_with_the_field_named() {
            crate::sql::k3_bad_input_is_refused_alone_with_the_field_named::<$shop>($wrong_type).await;
        }
        #[tokio::test]
        async fn k4_a_missing_table_charges_nobody_and_is_waited_for() {
            crate::sql::k4_a_missing_table_charges_nobody_and_is_waited_for::<$shop>().await;
        }
        #[tokio::test]
        async fn k3_what_a_constraint_objects_to_may_come_again() {
            crate::sql::k3_what_a_constraint_objects_to_may_come_again::<$shop>().await;
        }
    };
}
use for_every_database;

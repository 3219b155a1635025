//! Figures as a handler, read back from a recorder.

use std::collections::BTreeMap;
use std::sync::Arc;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use outbox::meter::{Meter, MeterConfig, MeterKind, Meters};
use outbox::{Message, Once, Outcome, Sink, Template, code, memory};

fn template(text: &str) -> Template {
    Template::parse(text).unwrap()
}

fn meter(kind: MeterKind, name: &str, value: Option<&str>, labels: &[(&str, &str)]) -> Meter {
    let mut meter = Meter::new(kind, name);
    meter.value = value.map(template);
    meter.labels = labels.iter().map(|(name, value)| ((*name).to_owned(), template(value))).collect();
    meter
}

fn order(country: &str, total: f64) -> Message {
    Message::json("order.created", &serde_json::json!({"country": country, "total": total})).unwrap()
}

/// Every series, as `name{label=value}`, with its value.
fn read(snapshotter: &Snapshotter) -> BTreeMap<String, String> {
    let all = snapshotter.snapshot().into_vec().into_iter();
    all.map(|(key, _, help, value)| {
        let labels: Vec<_> =
            key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let value = match value {
            DebugValue::Counter(count) => count.to_string(),
            DebugValue::Gauge(value) => value.to_string(),
            DebugValue::Histogram(values) => {
                format!("{:?}", values.iter().map(|value| value.0).collect::<Vec<_>>())
            }
        };
        let help = help.map(|help| format!(" ({help})")).unwrap_or_default();
        (format!("{}{{{}}}", key.key().name(), labels.join(",")), format!("{value}{help}"))
    })
    .collect()
}

#[tokio::test]
async fn d9_messages_move_counters_gauges_and_histograms() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let mut orders =
        meter(MeterKind::Counter, "orders_total", None, &[("country", "{payload.country}"), ("env", "test")]);
    orders.help = "Orders placed.".into();
    orders.types = Some("order.*".into());
    let mut value = meter(MeterKind::Histogram, "order_value", Some("{payload.total}"), &[]);
    value.types = Some("order.created".into());
    let last = meter(MeterKind::Gauge, "last_at", Some("{time.unix}"), &[("type", "{type}")]);
    let units = meter(MeterKind::Counter, "units_total", Some("{payload.units|0}"), &[]);
    let sink = Meters::new(MeterConfig::new(vec![orders, value, last, units])).unwrap();
    let at = |message: Message| message.occurred_at("1970-01-01T00:00:07Z".parse().unwrap());
    let paid = Message::json("payment.made", &serde_json::json!({"units": 5})).unwrap();
    let messages = [at(order("DE", 10.5)), at(order("FR", 20.0)), at(order("DE", 3.0)), at(paid)];
    assert_eq!(sink.deliver(&messages).await, vec![Outcome::Delivered; 4]);
    let expected = [
        ("orders_total{country=DE,env=test}", "2 (Orders placed.)"),
        ("orders_total{country=FR,env=test}", "1 (Orders placed.)"),
        ("order_value{}", "[10.5, 20.0, 3.0]"),
        ("last_at{type=order.created}", "7"),
        ("last_at{type=payment.made}", "7"),
        ("units_total{}", "5"),
    ];
    assert_eq!(read(&snapshotter), expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
}

#[tokio::test]
async fn d9_a_message_that_lacks_a_label_is_refused_and_moves_nothing() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let all = meter(MeterKind::Counter, "all_total", None, &[]);
    let by_country = meter(MeterKind::Counter, "country_total", None, &[("country", "{payload.country}")]);
    let sink = Meters::new(MeterConfig::new(vec![all, by_country])).unwrap();
    let lacking = Message::new("order.created", "{}");
    let outcomes = sink.deliver(&[lacking, Message::new("order.created", "s3cret"), order("DE", 1.0)]).await;
    for outcome in &outcomes[..2] {
        let Outcome::Rejected(rejection) = outcome else { panic!("{outcome:?}") };
        assert!(rejection.permanent && rejection.cause.code == code::UNFIT, "{outcome:?}");
        let detail = &rejection.cause.detail;
        assert!(
            detail.contains("metric 'country_total', label 'country'") && !detail.contains("s3cret"),
            "{detail}"
        );
    }
    assert_eq!(outcomes[2], Outcome::Delivered);
    assert_eq!(read(&snapshotter)["all_total{}"], "1");
}

#[tokio::test]
async fn d9_label_values_beyond_the_bound_are_counted_as_other() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let labels = [("country", "{payload.country}"), ("env", "test")];
    let mut config = MeterConfig::new(vec![meter(MeterKind::Counter, "orders_total", None, &labels)]);
    config.series = 2;
    let sink = Meters::new(config).unwrap();
    let messages: Vec<_> = ["A", "B", "C", "D", "A", "C"].map(|country| order(country, 1.0)).into();
    assert_eq!(sink.deliver(&messages).await, vec![Outcome::Delivered; 6]);
    let expected = [("A", "2"), ("B", "1"), ("other", "3")];
    let expected = expected
        .map(|(country, count)| (format!("orders_total{{country={country},env=test}}"), count.to_owned()));
    assert_eq!(read(&snapshotter), expected.into());
}

#[tokio::test]
async fn d3_behind_an_inbox_a_message_is_counted_once() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let sink = Meters::new(MeterConfig::new(vec![Meter::new(MeterKind::Counter, "orders_total")])).unwrap();
    let sink = Once::new(Arc::new(memory::Inbox::new()), "metrics", sink);
    let message = order("DE", 1.0);
    for _ in 0..3 {
        assert_eq!(sink.deliver(&[message.clone(), message.clone()]).await, vec![Outcome::Delivered; 2]);
    }
    assert_eq!(read(&snapshotter)["orders_total{}"], "1");
}

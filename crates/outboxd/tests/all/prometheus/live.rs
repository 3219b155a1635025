//! A real Prometheus and the running program.

use std::time::{Duration, Instant};

use testbed::{Alert, Prometheus, available};

use super::config;
use crate::program::{PATIENCE, Program, RELAY};
use crate::web;

/// Asks again and again until the alerts are as wanted; Prometheus tells nobody when they change.
async fn until(prometheus: &Prometheus, wanted: impl Fn(&[Alert]) -> bool) -> anyhow::Result<Vec<Alert>> {
    let give_up_at = Instant::now() + PATIENCE;
    loop {
        let alerts = prometheus.alerts().await?;
        if wanted(&alerts) {
            return Ok(alerts);
        }
        let seen = prometheus.query("{__name__=~\"outbox.*|up\"}").await?;
        assert!(Instant::now() < give_up_at, "it never came to that: {alerts:#?}, from {seen:#?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn firing(alerts: &[Alert]) -> Vec<&Alert> {
    alerts.iter().filter(|alert| alert.state == "firing").collect()
}

#[tokio::test]
async fn d7_a_dead_message_raises_the_alarm_and_its_repair_ends_it() -> anyhow::Result<()> {
    let program = Program::migrated(&format!("{RELAY}[http]\nlisten = \"127.0.0.1:0\"\n"));
    let mut running = program.start(&["run"]);
    let address = web::server(&mut running);
    let Some(prometheus) = available(Prometheus::start(&config(&[address.to_string()])).await) else {
        return Ok(());
    };
    let id = program.send("order-1");
    let alerts = until(&prometheus, |alerts| !firing(alerts).is_empty()).await?;
    let [alert] = firing(&alerts)[..] else { panic!("one, and no other: {alerts:#?}") };
    let label = |name: &str| alert.labels.get(name).map(String::as_str);
    assert_eq!(label("alertname"), Some("OutboxDeadMessages"), "{alert:#?}");
    assert_eq!((label("source"), label("pipe")), (Some("orders"), Some("relay")), "{alert:#?}");
    assert_eq!(label("severity"), Some("critical"), "{alert:#?}");
    assert!(alert.annotations["summary"].contains("relay has given up 1 message"), "{alert:#?}");
    assert!(alert.annotations["action"].contains("outboxd dlq list --source orders"), "{alert:#?}");
    let value = |samples: Vec<testbed::Sample>| samples.iter().map(|sample| sample.value).collect::<Vec<_>>();
    assert_eq!(value(prometheus.query("mq_dlq_total").await?), [1.0]);

    // As the text says.
    assert!(program.ok(&["dlq", "list", "--source", "orders"]).contains(&id));
    program.make_folder("out");
    program.ok(&["dlq", "retry", "--source", "orders", "--yes"]);
    // It took long, so that others consider to fire; for that one message is not enough.
    until(&prometheus, |alerts| firing(alerts).is_empty()).await?;
    assert_eq!(value(prometheus.query("mq_dlq_total").await?), [0.0]);
    // Where the alerts look there are bounds, so that they need not guess.
    for le in ["2", "30"] {
        let lag =
            format!("sum(outbox_lag_seconds_bucket{{pipe=\"relay\", type=\"order.created\", le=\"{le}\"}})");
        assert_eq!(prometheus.query(&lag).await?.len(), 1, "{le}");
    }
    Ok(())
}

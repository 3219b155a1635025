use anyhow::Result;
use testbed::{Prometheus, available};

#[tokio::test]
async fn it_answers_and_tells_what_is_wrong() -> Result<()> {
    let Some(prometheus) = available(Prometheus::start("scrape_configs: []").await) else { return Ok(()) };
    let [sum] = &prometheus.query("vector(1) + 1").await?[..] else { panic!("one series") };
    assert!(sum.labels.is_empty() && sum.value == 2.0, "{sum:?}");
    assert!(prometheus.query("up").await?.is_empty(), "nobody is asked");
    assert!(prometheus.alerts().await?.is_empty() && prometheus.rules().await?.is_empty());
    let error = prometheus.query("sum by (").await.expect_err("this is no expression");
    assert!(error.to_string().contains("parse error"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_configuration_that_it_does_not_take_is_told() {
    if available(testbed::promtool()).is_none() {
        return;
    }
    let started = Prometheus::start("scrape_config: []").await;
    let error = format!("{:#}", started.expect_err("there is no such key"));
    assert!(error.contains("field scrape_config not found"), "{error}");
}

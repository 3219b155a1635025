use anyhow::Result;
use testbed::{Prometheus, available};

#[tokio::test]
async fn it_answers_and_tells_what_is_wrong() -> Result<()> {
    let Some(prometheus) = available(Prometheus::start("scrape_configs: []").await) else { return Ok(()) };
    let [sum] = &prometheus.query("vector(1) + 1").await?[..] else { panic!("one series") };
    assert!(sum.labels.is_empty() && sum.value == 2.0, "{sum:?}");
    assert!(prometheus.query("up").await?.is_empty(), "nobody is asked");
    assert!(prometheus.alerts().await?.is_empty() && prometheus.rules().await?.is_empty());
    let error = prometheus.query("sum by (").await.unwrap_err();
    assert!(error.to_string().contains("parse error"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_configuration_that_it_does_not_take_is_told() {
    let error = Prometheus::start("scrape_config: []").await.map(drop).unwrap_err();
    assert!(
        error.to_string().contains("not installed") || format!("{error:#}").contains("scrape_config"),
        "{error:#}"
    );
}

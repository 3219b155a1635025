//! The rules and the dashboard in `deploy/`: what promtool says of them, what a real Prometheus makes of them, and that
//! they ask for nothing that the program does not export.

mod live;
mod names;
mod shipped;

use std::path::PathBuf;

use serde_json::Value;

/// A file of the repository.
fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name).canonicalize().unwrap()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

/// A configuration of Prometheus with the shipped rules, unchanged, that looks and thinks every second.
fn config(targets: &[String]) -> String {
    let rules = ["recording.yml", "alerts.yml"].map(|name| path("deploy/prometheus").join(name));
    format!(
        "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\n\
         rule_files: {rules:?}\n\
         scrape_configs: [{{ job_name: outboxd, static_configs: [{{ targets: {targets:?} }}] }}]\n"
    )
}

fn dashboard() -> Value {
    serde_json::from_str(&read("deploy/grafana/outboxd.json")).unwrap()
}

/// Everything in a JSON document that stands under this key, at any depth.
fn under<'v>(value: &'v Value, key: &str) -> Vec<&'v Value> {
    match value {
        Value::Object(object) => {
            let here = object.iter().filter(|(name, _)| *name == key).map(|(_, value)| value);
            here.chain(object.values().flat_map(|value| under(value, key))).collect()
        }
        Value::Array(values) => values.iter().flat_map(|value| under(value, key)).collect(),
        _ => Vec::new(),
    }
}

/// The queries of the dashboard, with its variables as after "All".
fn queries() -> Vec<String> {
    let dashboard = dashboard();
    let exprs = under(&dashboard, "expr").into_iter().map(|expr| expr.as_str().unwrap().to_owned());
    let filled = |expr: String| {
        let expr = ["$job", "$source", "$pipe"].iter().fold(expr, |expr, name| expr.replace(name, ".*"));
        expr.replace("$__rate_interval", "5m")
    };
    exprs.map(filled).collect()
}

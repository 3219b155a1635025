//! The files as they are shipped: accepted by promtool and by Prometheus, tested, and true in what they tell people to do.

use testbed::{Prometheus, available, promtool};

use super::{config, dashboard, path, queries, read, under};
use crate::program::Program;

/// The unit tests of the rules.
fn tests() -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(path("deploy/prometheus/tests")).unwrap();
    let mut tests: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    tests.sort();
    tests
}

/// The values of a key in a rule file, which has them one a line.
fn values(file: &str, key: &str) -> Vec<String> {
    let text = read(file);
    let values = text.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix(key));
    values.map(|value| value.trim_matches([' ', '"']).to_owned()).collect()
}

#[test]
fn d7_promtool_accepts_the_rules_and_their_unit_tests() {
    for arguments in [["check", "rules"], ["test", "rules"]] {
        let Some(mut promtool) = available(promtool()) else { return };
        promtool.args(arguments);
        if arguments[0] == "check" {
            promtool.args(["recording.yml", "alerts.yml"].map(|name| path("deploy/prometheus").join(name)));
        } else {
            promtool.args(tests());
        }
        let output = promtool.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    }
}

#[test]
fn d7_every_rule_has_a_unit_test_and_every_alert_one_of_its_silence() {
    let tests: String = tests().iter().map(|test| std::fs::read_to_string(test).unwrap()).collect();
    let (records, alerts) = (
        values("deploy/prometheus/recording.yml", "record:"),
        values("deploy/prometheus/alerts.yml", "alert:"),
    );
    assert!(records.len() > 10 && alerts.len() > 10, "{records:?} {alerts:?}");
    for record in records {
        let tested = [format!("expr: {record}\n"), format!("expr: round({record}")];
        assert!(tested.iter().any(|line| tests.contains(line)), "{record}");
    }
    for alert in alerts {
        let outcomes: Vec<bool> = tests
            .split(&format!("alertname: {alert}\n"))
            .skip(1)
            .map(|test| test.lines().nth(1).unwrap().trim() == "exp_alerts: []")
            .collect();
        assert!(outcomes.contains(&true) && outcomes.contains(&false), "{alert}: {outcomes:?}");
    }
}

/// Whoever is woken reads these texts: what they tell to type must exist, and the page that they name too.
#[test]
fn an_alert_says_what_to_do_and_it_can_be_done() {
    let program = Program::new();
    let alerts = read("deploy/prometheus/alerts.yml").replace("\n            ", " ");
    let texts = alerts.split("- alert: ").skip(1);
    let guide = read("docs/guides/operate.md");
    let (mut count, mut commands) = (0, 0);
    for alert in texts {
        let name = alert.lines().next().unwrap();
        let line = |key: &str| {
            let line = alert.lines().find_map(|line| line.trim().strip_prefix(key));
            line.unwrap_or_else(|| panic!("{name} has no {key}")).trim()
        };
        assert!(line("summary:").len() > 30, "{name}");
        assert!(["{ severity: critical }", "{ severity: warning }"].contains(&line("labels:")), "{name}");
        let section = line("runbook:").trim_matches('"');
        assert!(guide.contains(&format!("\n## {section}\n")), "{name}: {section}");
        assert!(guide.contains(&format!("| `{name}` |")), "{name} is not in the guide");
        let action = line("action:");
        assert!(action.len() > 50, "{name}: {action}");
        for command in action.split('\'').filter_map(|part| part.strip_prefix("outboxd ")) {
            let mut words: Vec<&str> =
                command.split("{{").map(|part| part.rsplit("}}").next().unwrap()).collect();
            words = words.iter().flat_map(|part| part.split_whitespace()).collect();
            // Where a label stands in the text, any value.
            let mut arguments: Vec<&str> = Vec::new();
            for word in words {
                arguments.push(word);
                if ["--source", "--sink"].contains(&word) {
                    arguments.push("any");
                }
            }
            arguments.push("--help");
            let ran = program.run(&arguments);
            assert_eq!(ran.code, 0, "{name}: {arguments:?}: {ran:#?}");
            commands += 1;
        }
        count += 1;
    }
    assert!(count > 10 && commands > 10, "{count} alerts, {commands} commands");
}

#[tokio::test]
async fn e6_prometheus_accepts_every_query_of_the_dashboard() -> anyhow::Result<()> {
    let Some(prometheus) = available(Prometheus::start(&config(&[])).await) else { return Ok(()) };
    for query in queries() {
        prometheus.query(&query).await?;
    }
    assert!(prometheus.query("sum by (").await.is_err(), "what is wrong is told");
    Ok(())
}

#[test]
fn the_dashboard_belongs_to_nobodys_data_source() {
    let dashboard = dashboard();
    let variables = under(&dashboard["templating"], "name");
    assert_eq!(variables, ["datasource", "job", "source", "pipe"]);
    let sources = under(&dashboard, "datasource");
    assert!(sources.len() > 30);
    for source in sources {
        assert_eq!(source["uid"], "${datasource}", "{source}");
    }
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: std::collections::BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "every panel has an id of its own");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert!(!panel["targets"].as_array().unwrap().is_empty(), "{}", panel["title"]);
    }
}

//! That rules and dashboard use figures that there are, under labels that they have.

use std::collections::{BTreeMap, BTreeSet};

use testbed::{Prometheus, available};

use super::{config, dashboard, path, queries, read, under};

/// What Prometheus adds to every series, or has of its own.
const ADDED: [&str; 3] = ["job", "instance", "le"];

/// What an expression asks for: the name of a series, and the labels by which it is chosen.
type Asked = (String, BTreeSet<String>);

/// The series in an expression. Not a parser: names are what stands outside of texts, ranges and lists of labels, and is
/// neither a function nor a word of the language.
fn asked(expr: &str) -> Vec<Asked> {
    let mut rest = expr;
    let mut asked = Vec::new();
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '"' => after(&rest[1..], '"'),
            '[' => after(rest, ']'),
            '{' => {
                asked.extend(names_in_selector(&rest[1..]));
                after(rest, '}')
            }
            _ if first.is_ascii_digit() => rest.trim_start_matches(is_of_word),
            _ if is_of_word(first) => {
                let (word, next) = rest.split_at(rest.find(|char| !is_of_word(char)).unwrap_or(rest.len()));
                match word {
                    "by" | "without" | "on" | "ignoring" | "group_left" | "group_right" => after(next, ')'),
                    "and" | "or" | "unless" | "bool" | "offset" => next,
                    _ if ["(", "by (", "without ("]
                        .iter()
                        .any(|begin| next.trim_start().starts_with(begin)) =>
                    {
                        next
                    }
                    _ => {
                        asked.push((word.to_owned(), labels(next)));
                        next.strip_prefix('{').map_or(next, |selector| after(selector, '}'))
                    }
                }
            }
            _ => &rest[first.len_utf8()..],
        };
    }
    asked
}

fn is_of_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_' || char == ':'
}

fn after(text: &str, end: char) -> &str {
    text.split_once(end).unwrap_or_else(|| panic!("no {end} in {text}")).1
}

/// The labels of a selector, if one follows.
fn labels(text: &str) -> BTreeSet<String> {
    let Some((selector, _)) = text.strip_prefix('{').and_then(|text| text.split_once('}')) else {
        return BTreeSet::new();
    };
    // Every second part is a text, which may have anything in it.
    let outside = selector.split('"').step_by(2).map(|part| part.trim_start_matches(',').trim());
    let names = outside.filter(|part| !part.is_empty()).map(|part| part.trim_end_matches(['=', '!', '~']));
    names.map(str::to_owned).collect()
}

/// The series that a selector without a name has in its pattern for it.
fn names_in_selector(text: &str) -> Vec<Asked> {
    let Some((_, names)) = text.split_once("__name__=~\"") else { return Vec::new() };
    let names = names.split('"').next().unwrap_or_default();
    names.split('|').map(|name| (name.to_owned(), BTreeSet::new())).collect()
}

/// The figures in the reference, with their labels; a histogram with its three series.
fn exported() -> BTreeMap<String, BTreeSet<String>> {
    let mut exported = BTreeMap::new();
    for line in read("docs/reference/metrics.md").lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, kind @ ("counter" | "gauge" | "histogram"), labels, ..] = cells.as_slice() else {
            continue;
        };
        let labels = labels.split(", ").map(|label| label.trim_matches('`').to_owned());
        let labels: BTreeSet<String> = labels.chain(ADDED.map(str::to_owned)).collect();
        let suffixes: &[&str] = if *kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        for suffix in suffixes {
            exported.insert(format!("{}{suffix}", name.trim_matches('`')), labels.clone());
        }
    }
    assert!(exported.len() > 20, "{exported:#?}");
    exported
}

/// The figures that the code names: constants of its crates.
fn in_the_code() -> BTreeSet<String> {
    let mut folders = vec![path("crates/outbox/src"), path("crates/outboxd/src")];
    let mut names = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else {
                let text = std::fs::read_to_string(entry).unwrap();
                let values =
                    text.split("const ").skip(1).filter_map(|item| item.split_once(": &str = \"outbox"));
                let values = values.filter(|(before, _)| before.chars().all(is_of_word));
                let values = values.filter_map(|(_, value)| value.split('"').next());
                let is_name = |value: &&str| value.contains('_') && value.chars().all(is_of_word);
                names.extend(values.filter(is_name).map(|value| format!("outbox{value}")));
            }
        }
    }
    names
}

/// What is asked for and not there, or not by that label. `up` is of Prometheus itself.
fn unknown(exprs: &[String], known: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let all = exprs.iter().flat_map(|expr| asked(expr)).filter(|(name, _)| name != "up");
    let wrong = all.filter_map(|(name, labels)| match known.get(&name) {
        None => Some(name),
        Some(has) => {
            labels.iter().find(|label| !has.contains(*label)).map(|label| format!("{name} by {label}"))
        }
    });
    wrong.collect()
}

#[test]
fn names_are_told_from_functions_labels_and_texts() {
    let expr = r#"sum by (job, le) (rate(a_total{pipe=~"x y", code!="b"}[5m] offset 1h)) / on (job) c unless d > 2e3
        or label_replace(e:f, "to", "$1", "from", "(.*)")"#;
    let names = |expr: &str| asked(expr).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(expr), ["a_total", "c", "d", "e:f"]);
    assert_eq!(names(r#"{__name__=~"a|b", job="c"}"#), ["a", "b"]);
    let labels = labels(r#"{pipe=~"x=y, z", code!="b"} > 0"#);
    assert_eq!(labels.iter().map(String::as_str).collect::<Vec<_>>(), ["code", "pipe"]);
    assert_eq!(
        unknown(&["a{b=\"\"} + c".to_owned()], &BTreeMap::from([("a".to_owned(), BTreeSet::new())])),
        ["a by b", "c"]
    );
}

#[test]
fn e6_the_dashboard_asks_only_for_figures_that_are_exported() {
    let queries = queries();
    assert!(queries.len() > 30);
    assert_eq!(unknown(&queries, &exported()), Vec::<String>::new());

    let dashboard = dashboard();
    let definitions = under(&dashboard, "definition").into_iter().map(|text| text.as_str().unwrap());
    let values =
        definitions.map(|text| text.strip_prefix("label_values(").unwrap().rsplit_once(", ").unwrap().0);
    let values: Vec<String> = values.map(str::to_owned).collect();
    assert_eq!(values.len(), 3, "{values:?}");
    assert_eq!(unknown(&values, &exported()), Vec::<String>::new());
}

#[tokio::test]
async fn d7_the_rules_ask_only_for_figures_that_are_exported() -> anyhow::Result<()> {
    let Some(prometheus) = available(Prometheus::start(&config(&[])).await) else { return Ok(()) };
    let rules = prometheus.rules().await?;
    assert!(rules.len() > 30, "{rules:#?}");
    let mut known = exported();
    let recorded = rules.iter().filter(|rule| rule.annotations.is_empty()).map(|rule| rule.name.clone());
    // Their labels are the matter of their unit tests.
    let any = ["job", "source", "pipe", "queue", "quantile"].map(str::to_owned);
    known.extend(recorded.map(|name| (name, BTreeSet::from(any.clone()))));
    let queries: Vec<String> = rules.into_iter().map(|rule| rule.query).collect();
    assert_eq!(unknown(&queries, &known), Vec::<String>::new());
    Ok(())
}

#[test]
fn the_reference_names_every_figure_of_the_code_and_no_other() {
    let of_histogram = ["_bucket", "_sum", "_count"];
    let known = exported().into_keys().filter(|name| !name.ends_with("_sum") && !name.ends_with("_count"));
    let known: BTreeSet<String> = known
        .map(|name| of_histogram.iter().fold(name, |name, end| name.trim_end_matches(end).to_owned()))
        .collect();
    assert_eq!(known, in_the_code());
}

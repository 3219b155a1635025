//! The conditions, and that they are those of the rules for Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::conditions::{Known, RULES, Seen};
use super::facts::Facts;
use crate::options::AlertLimits;
use crate::quantity::parse_duration;

const SHIPPED: &str = include_str!("../../../../deploy/prometheus/alerts.yml");

/// What an alert says of these figures, `grown` being those of the last minutes.
fn seen(alert: &str, facts: &str, grown: &str) -> Vec<Seen> {
    let (facts, grown, limits) = (Facts::parse(facts), Facts::parse(grown), AlertLimits::default());
    let rule = RULES.iter().find(|rule| rule.alert == alert).expect("there is such a rule");
    rule.look(&Known { facts: &facts, grown: &grown, limits: &limits })
}

/// The sentences of what holds.
fn holds(alert: &str, facts: &str, grown: &str) -> Vec<String> {
    seen(alert, facts, grown).into_iter().filter_map(|seen| seen.holds).collect()
}

/// Each alert of the shipped file, with its text.
fn shipped() -> BTreeMap<&'static str, &'static str> {
    let alerts = SHIPPED.split("- alert: ").skip(1);
    alerts.map(|text| text.split_once('\n').expect("it has a name")).collect()
}

#[test]
fn d7_names_waits_and_severities_are_those_of_the_rules_for_prometheus() {
    let shipped = shipped();
    let ours: BTreeSet<&str> = RULES.iter().map(|rule| rule.alert).collect();
    let of_others = BTreeSet::from(["OutboxdDown", "OutboxdGone"]);
    assert_eq!(shipped.keys().copied().collect::<BTreeSet<_>>(), &ours | &of_others);
    for rule in &RULES {
        let text = shipped[rule.alert];
        let line = |key: &str| text.lines().find_map(|line| line.trim().strip_prefix(key)).map(str::trim);
        let lasts =
            line("for:").map_or(Duration::ZERO, |lasts| parse_duration(lasts).expect("it is a duration"));
        assert_eq!(rule.lasts, lasts, "{}", rule.alert);
        assert_eq!(
            line("labels:"),
            Some(&*format!("{{ severity: {} }}", rule.severity.as_str())),
            "{}",
            rule.alert
        );
    }
}

#[test]
fn d7_thresholds_are_those_of_the_rules_for_prometheus() {
    let shipped = shipped();
    let limits = AlertLimits::default();
    for (alert, threshold) in [
        ("OutboxDeadMessages", "> 0".to_owned()),
        ("OutboxDeadLetters", "> 0".to_owned()),
        ("OutboxErrorQueueLong", format!("> {}", limits.dead_letters)),
        ("OutboxErrorsUnresolved", format!("> {}", limits.errors)),
        ("OutboxPendingHigh", format!("> {}", limits.pending)),
        ("OutboxOldestPending", format!("> {}", limits.oldest.as_secs())),
        ("OutboxDispatchSlow", format!("> {}", limits.dispatch.as_millis())),
        ("OutboxProcessingSlow", format!("> {}", limits.processing.as_secs())),
        ("OutboxErrorRateHigh", format!("> {}", f64::from(limits.error_percent) / 100.0)),
        ("OutboxSinkDown", "== 1".to_owned()),
        ("OutboxPipeStopped", "== 1".to_owned()),
        ("OutboxConsumerOffline", "> 90".to_owned()),
        ("OutboxRelayOffline", "< 3600".to_owned()),
        ("OutboxQueueUnread", "== 0".to_owned()),
        ("OutboxSourceUnreachable", "== 0".to_owned()),
    ] {
        let expr = shipped[alert].split("labels:").next().unwrap_or_default();
        let is_there = expr.lines().any(|line| line.trim_end().ends_with(&threshold));
        assert!(is_there, "{alert} has no {threshold}: {expr}");
    }
}

#[test]
fn d7_what_is_dead_fires_and_what_is_not_known_is_not_over() {
    let dead =
        "outbox_dead{source=\"orders\",pipe=\"relay\"} 1\noutbox_dead{source=\"orders\",pipe=\"mail\"} 0\n";
    assert_eq!(
        holds("OutboxDeadMessages", dead, ""),
        ["pipe relay has given up 1 message, waiting for a person"]
    );
    let unknown = seen("OutboxDeadMessages", "outbox_dead{source=\"orders\",pipe=\"relay\"} NaN\n", "");
    assert!(unknown.len() == 1 && unknown[0].holds.is_none(), "{unknown:?}");
    let queue = |count: u32| {
        format!(
            "outbox_queue_messages{{source=\"m\",queue=\"m.dlq\",kind=\"dead\"}} {count}\n\
             outbox_queue_messages{{source=\"m\",queue=\"m\",kind=\"work\"}} 99\n"
        )
    };
    assert_eq!(holds("OutboxDeadLetters", &queue(0), "").len(), 0);
    assert!(holds("OutboxDeadLetters", &queue(2), "")[0].starts_with("2 dead letters in m.dlq"));
    assert_eq!(holds("OutboxErrorQueueLong", &queue(10), "").len(), 0);
    assert_eq!(holds("OutboxErrorQueueLong", &queue(11), "").len(), 1);
    let errors = |count: u32| format!("outbox_errors_open{{sink=\"e\"}} {count}\n");
    assert_eq!(holds("OutboxErrorsUnresolved", &errors(10), "").len(), 0);
    assert_eq!(holds("OutboxErrorsUnresolved", &errors(11), "").len(), 1);
}

#[test]
fn d7_what_is_set_aside_waits_too() {
    let figures = |pending: u32| {
        format!(
            "outbox_pending{{source=\"o\",pipe=\"p\"}} {pending}\noutbox_parked{{source=\"o\",pipe=\"p\",state=\"waiting\"}} 4\n\
             outbox_parked{{source=\"o\",pipe=\"p\",state=\"behind\"}} 6\n"
        )
    };
    assert_eq!(holds("OutboxPendingHigh", &figures(90), "").len(), 0);
    assert!(holds("OutboxPendingHigh", &figures(91), "")[0].starts_with("101 messages wait for pipe p"));
    let age = |age: u32| format!("outbox_oldest_pending_seconds{{source=\"o\",pipe=\"p\"}} {age}\n");
    assert_eq!(holds("OutboxOldestPending", &age(300), "").len(), 0);
    assert_eq!(holds("OutboxOldestPending", &age(301), "").len(), 1);
}

#[test]
fn d7_times_and_failures_are_judged_by_the_last_minutes() {
    let lag = |within: u32| {
        format!(
            "outbox_lag_seconds_bucket{{pipe=\"p\",type=\"a\",le=\"2\"}} {within}\noutbox_lag_seconds_bucket{{pipe=\"p\",type=\"a\",le=\"5\"}} 50\n\
             outbox_lag_seconds_bucket{{pipe=\"p\",type=\"a\",le=\"+Inf\"}} 50\noutbox_lag_seconds_bucket{{pipe=\"p\",type=\"b\",le=\"2\"}} 50\n\
             outbox_lag_seconds_bucket{{pipe=\"p\",type=\"b\",le=\"5\"}} 50\noutbox_lag_seconds_bucket{{pipe=\"p\",type=\"b\",le=\"+Inf\"}} 50\n"
        )
    };
    assert_eq!(holds("OutboxDispatchSlow", "", &lag(45)).len(), 0);
    assert_eq!(holds("OutboxDispatchSlow", "", &lag(44)).len(), 1);
    let took = |within: u32| {
        format!(
            "outbox_delivery_seconds_bucket{{pipe=\"p\",type=\"a\",le=\"30\"}} {within}\noutbox_delivery_seconds_bucket{{pipe=\"p\",type=\"a\",le=\"60\"}} 100\n\
             outbox_delivery_seconds_bucket{{pipe=\"p\",type=\"a\",le=\"+Inf\"}} 100\n"
        )
    };
    assert_eq!(holds("OutboxProcessingSlow", "", &took(95)).len(), 0);
    assert!(holds("OutboxProcessingSlow", "", &took(94))[0].contains("for a message of type a"));
    assert_eq!(seen("OutboxProcessingSlow", "", "").len(), 0);
    let failed = |failed: u32| {
        format!(
            "outbox_failed_total{{pipe=\"p\",type=\"a\",attempt=\"1\",then=\"retry\"}} {failed}\noutbox_delivered_total{{pipe=\"p\",type=\"a\"}} 80\n"
        )
    };
    assert_eq!(holds("OutboxErrorRateHigh", "", &failed(20)).len(), 0);
    assert_eq!(holds("OutboxErrorRateHigh", "", &failed(21)), ["21 % of the attempts of pipe p fail"]);
    assert_eq!(holds("OutboxErrorRateHigh", "", &failed(0)).len(), 0);
}

#[test]
fn d7_who_is_gone_is_told_of_and_who_has_others_in_its_place_less_loudly() {
    let beats = |one: f64, other: f64| {
        format!(
            "outbox_beat_age_seconds{{relay=\"a\",pipe=\"p\"}} {one}\noutbox_beat_age_seconds{{relay=\"b\",pipe=\"p\"}} {other}\n"
        )
    };
    for (one, other, nobody, some) in [
        (5.0, 90.0, 0, 0),
        (5.0, 91.0, 0, 1),
        (5.0, 3_600.0, 0, 0),
        (91.0, 500.0, 1, 0),
        (5.0, f64::NAN, 0, 0),
    ] {
        assert_eq!(holds("OutboxConsumerOffline", &beats(one, other), "").len(), nobody, "{one} {other}");
        assert_eq!(holds("OutboxRelayOffline", &beats(one, other), "").len(), some, "{one} {other}");
    }
    // Who was stopped is not there at all.
    assert_eq!(seen("OutboxConsumerOffline", "", "").len(), 0);
    let unknown = seen("OutboxConsumerOffline", &beats(f64::NAN, f64::NAN), "");
    assert!(unknown.len() == 1 && unknown[0].holds.is_none(), "{unknown:?}");
}

#[test]
fn d7_sinks_sources_and_queues_that_nobody_serves() {
    assert_eq!(
        holds("OutboxSinkDown", "outbox_sink_open{pipe=\"p\"} 1\noutbox_sink_open{pipe=\"q\"} 0\n", "").len(),
        1
    );
    let ended = "outbox_pipe_ended{pipe=\"p\"} 1\noutbox_pipe_ended{pipe=\"q\"} 0\n";
    assert_eq!(holds("OutboxPipeStopped", ended, ""), ["pipe p has ended and will not go on by itself"]);
    let reachable = "outbox_source_reachable{source=\"o\"} 0\noutbox_source_reachable{source=\"m\"} 1\n";
    assert!(holds("OutboxSourceUnreachable", reachable, "")[0].starts_with("source o cannot be looked at"));
    let queue = |readers: u32, waiting: u32| {
        format!(
            "outbox_queue_consumers{{source=\"m\",queue=\"m\"}} {readers}\noutbox_queue_messages{{source=\"m\",queue=\"m\",kind=\"work\"}} {waiting}\n\
             outbox_queue_consumers{{source=\"m\",queue=\"m.dlq\"}} 0\noutbox_queue_messages{{source=\"m\",queue=\"m.dlq\",kind=\"dead\"}} 5\n"
        )
    };
    assert_eq!(
        holds("OutboxQueueUnread", &queue(0, 1), ""),
        ["messages wait in queue m, and nobody reads it"]
    );
    assert_eq!(holds("OutboxQueueUnread", &queue(0, 0), "").len(), 0);
    assert_eq!(holds("OutboxQueueUnread", &queue(1, 9), "").len(), 0);
}

#[test]
fn d7_what_somebody_has_paused_is_meant_to_wait() {
    let waiting = "outbox_pending{source=\"o\",pipe=\"p\"} 9000\n\
                   outbox_oldest_pending_seconds{source=\"o\",pipe=\"p\"} 9000\n\
                   outbox_queue_consumers{source=\"o\",queue=\"q\"} 0\n\
                   outbox_queue_messages{source=\"o\",queue=\"q\",kind=\"work\"} 5\n";
    let slow = "outbox_lag_seconds_bucket{pipe=\"p\",le=\"2\"} 0\noutbox_lag_seconds_bucket{pipe=\"p\",le=\"5\"} 9\n\
                outbox_lag_seconds_bucket{pipe=\"p\",le=\"+Inf\"} 9\n";
    let paused = |pipe: &str, source: &str, is: u8| {
        format!("{waiting}outbox_pipe_paused{{pipe=\"{pipe}\",source=\"{source}\"}} {is}\n")
    };
    let shipped = shipped();
    for alert in ["OutboxPendingHigh", "OutboxOldestPending", "OutboxDispatchSlow", "OutboxQueueUnread"] {
        assert_eq!(seen(alert, &paused("p", "o", 1), slow), [], "{alert}");
        assert_eq!(holds(alert, &paused("p", "o", 0), slow).len(), 1, "{alert}");
        assert_eq!(holds(alert, &paused("other", "another", 1), slow).len(), 1, "{alert}");
        assert!(shipped[alert].contains("(outbox_pipe_paused) == 1"), "{alert} differs from the rule");
    }
    let others = shipped.values().filter(|text| text.contains("outbox_pipe_paused")).count();
    assert_eq!(others, 4, "the rules for Prometheus leave out others");
}

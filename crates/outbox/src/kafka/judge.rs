//! What is to be said of a topic by its settings. Pure.

use std::time::Duration;

use crate::finding::Finding;

/// What the headers may add to a payload that just fits.
const SLACK: usize = 64 * 1024;

/// What a topic tells of itself, as far as it does.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Told {
    /// So many replicas must have a record before it counts as written.
    pub(super) in_sync: Option<i32>,
    /// Whether a replica that lacks records may become the one that counts.
    pub(super) unclean: bool,
    /// The largest record that it takes.
    pub(super) largest: Option<usize>,
    /// How long records are kept; within, none is without end.
    pub(super) kept: Option<Option<Duration>>,
}

/// What the largest record of a topic is compared with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Size<'t> {
    /// The largest payload that is sent there.
    Sent(usize),
    /// The largest payload that is read from there.
    Read(usize),
    /// The largest record of the topic from which records are moved there.
    Moved(&'t str, usize),
}

fn set(servers: &str, topic: &str, setting: &str) -> String {
    format!(
        "kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics --entity-name '{topic}' \
         --add-config {setting}"
    )
}

/// Whether records outlive a broker, and can be written while one is away.
pub(super) fn replicas(servers: &str, topic: &str, count: i32, told: &Result<Told, String>) -> Finding {
    const WHAT: &str = "replicas";
    const MORE: &str = "give it 3 replicas with kafka-reassign-partitions.sh, or make it anew with \
                        --replication-factor 3";
    let has = format!("'{topic}' has {count} {}", if count == 1 { "replica" } else { "replicas" });
    let (in_sync, unclean) = match told {
        Ok(told) => (told.in_sync, told.unclean),
        Err(_) => (None, false),
    };
    if let Some(least) = in_sync.filter(|least| *least > count) {
        let evidence = format!("{has}, and min.insync.replicas is {least}: nothing can be written");
        let fix = set(servers, topic, &format!("min.insync.replicas={}", (count - 1).max(1)));
        return Finding::failure(WHAT, evidence).fix(fix);
    }
    if count < 2 {
        return Finding::warning(WHAT, format!("{has}: its records are lost with one disk")).fix(MORE);
    }
    if unclean {
        let evidence = format!("{has}, and one that lacks records may become the leader: they are lost then");
        let fix = set(servers, topic, "unclean.leader.election.enable=false");
        return Finding::warning(WHAT, evidence).fix(fix);
    }
    let fix = if count > 2 { set(servers, topic, "min.insync.replicas=2") } else { MORE.to_owned() };
    match (in_sync, told) {
        (Some(least), _) if least < 2 => {
            let evidence = format!(
                "{has}, and min.insync.replicas is {least}: a record counts as written when one broker has it"
            );
            Finding::warning(WHAT, evidence).fix(fix)
        }
        (Some(least), _) if least == count => {
            let evidence = format!(
                "{has}, and min.insync.replicas is {least}: nothing can be written while a broker is away"
            );
            Finding::warning(WHAT, evidence).fix(fix)
        }
        (Some(least), _) => Finding::ok(WHAT, format!("{has}, of which {least} must have a record")),
        (None, Err(why)) => {
            Finding::ok(WHAT, format!("{has}; its settings were not looked at, for they are not told: {why}"))
        }
        (None, Ok(_)) => Finding::ok(WHAT, format!("{has}; min.insync.replicas is not told")),
    }
}

/// Whether what goes there, or comes from there, fits. Nothing if the topic does not tell.
pub(super) fn record_size(
    servers: &str,
    topic: &str,
    size: Size<'_>,
    told: &Result<Told, String>,
) -> Option<Finding> {
    const WHAT: &str = "record size";
    let largest = told.as_ref().ok()?.largest?;
    let takes = format!("'{topic}' takes records of up to {largest} bytes");
    let raised = |wanted: usize| set(servers, topic, &format!("max.message.bytes={wanted}"));
    Some(match size {
        Size::Sent(sent) if sent > largest => Finding::warning(
            WHAT,
            format!("{takes}, and payloads of up to {sent} bytes are sent: what is larger is refused there"),
        )
        .fix(raised(sent + SLACK)),
        Size::Read(read) if read < largest => Finding::warning(
            WHAT,
            format!("{takes}, and payloads of more than {read} bytes go to the dead letters unread"),
        )
        .fix(format!("raise the largest payload of the source to {largest}")),
        Size::Moved(from, whole) if whole > largest => Finding::warning(
            WHAT,
            format!("{takes}, and '{from}' such of up to {whole}: what is larger cannot be moved there"),
        )
        .fix(raised(whole + SLACK)),
        _ => Finding::ok(WHAT, takes),
    })
}

/// Whether a retry topic keeps records for their delay, and one of dead letters until somebody has dealt with them.
/// Nothing if the topic does not tell.
pub(super) fn retention(
    servers: &str,
    topic: &str,
    delay: Option<Duration>,
    told: &Result<Told, String>,
) -> Option<Finding> {
    const WHAT: &str = "retention";
    let forever = || set(servers, topic, "retention.ms=-1");
    Some(match (told.as_ref().ok()?.kept?, delay) {
        (None, _) => Finding::ok(WHAT, format!("'{topic}' keeps its records without end")),
        (Some(kept), Some(delay)) if kept <= delay => {
            let evidence = format!(
                "'{topic}' keeps its records for {} s, and they wait there for {} s: they are lost before they are tried again",
                kept.as_secs(),
                delay.as_secs()
            );
            Finding::failure(WHAT, evidence).fix(forever())
        }
        (Some(kept), Some(_)) => {
            Finding::ok(WHAT, format!("'{topic}' keeps its records for {} s", kept.as_secs()))
        }
        (Some(kept), None) => {
            let hours = kept.as_secs() / 3_600;
            let evidence =
                format!("'{topic}' keeps dead letters for {hours} hours: what nobody has dealt with is lost");
            Finding::warning(WHAT, evidence).fix(forever())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Level::{self, Failure, Ok as Fine, Warning};

    #[test]
    fn replicas_must_outlive_a_broker_and_let_one_be_away() {
        let judged = |count, in_sync, unclean| {
            replicas("h:9092", "t", count, &Ok(Told { in_sync: Some(in_sync), unclean, ..Told::default() }))
        };
        for (count, in_sync, level, says) in [
            (1, 1, Warning, "lost with one disk"),
            (1, 2, Failure, "nothing can be written"),
            (2, 1, Warning, "when one broker has it"),
            (2, 2, Warning, "while a broker is away"),
            (3, 1, Warning, "when one broker has it"),
            (3, 2, Fine, "of which 2"),
            (3, 3, Warning, "while a broker is away"),
            (3, 4, Failure, "nothing can be written"),
            (5, 3, Fine, "of which 3"),
        ] {
            let found = judged(count, in_sync, false);
            assert_eq!((found.level, found.evidence.contains(says)), (level, true), "{found:?}");
            assert_eq!(found.fix.is_some(), level != Fine, "{found:?}");
        }
        assert!(judged(3, 1, false).fix.is_some_and(|fix| fix.ends_with("min.insync.replicas=2")));
        assert!(judged(3, 2, true).fix.is_some_and(|fix| fix.ends_with("election.enable=false")));
        let closed = replicas("h:9092", "t", 3, &Err("denied".to_owned()));
        assert!(closed.level == Fine && closed.evidence.ends_with("not told: denied"), "{closed:?}");
    }

    #[test]
    fn what_is_sent_read_or_moved_must_fit() {
        let told = Ok(Told { largest: Some(1_000), ..Told::default() });
        let level = |size| record_size("h:9092", "t", size, &told).map(|found| found.level);
        assert_eq!([level(Size::Sent(1_000)), level(Size::Sent(1_001))], [Some(Fine), Some(Warning)]);
        assert_eq!([level(Size::Read(1_000)), level(Size::Read(999))], [Some(Fine), Some(Warning)]);
        assert_eq!(
            [level(Size::Moved("o", 1_000)), level(Size::Moved("o", 1_001))],
            [Some(Fine), Some(Warning)]
        );
        assert_eq!(record_size("h:9092", "t", Size::Sent(1), &Err(String::new())), None);
    }

    #[test]
    fn what_waits_or_died_must_be_kept() {
        let level = |kept: Option<u64>, delay: Option<u64>| -> Option<Level> {
            let told = Ok(Told { kept: Some(kept.map(Duration::from_secs)), ..Told::default() });
            retention("h:9092", "t", delay.map(Duration::from_secs), &told).map(|found| found.level)
        };
        assert_eq!([level(None, Some(60)), level(None, None)], [Some(Fine), Some(Fine)]);
        assert_eq!([level(Some(61), Some(60)), level(Some(60), Some(60))], [Some(Fine), Some(Failure)]);
        assert_eq!(level(Some(604_800), None), Some(Warning));
    }
}

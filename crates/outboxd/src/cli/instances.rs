//! The instances that run the pipes, by their beats: part of `status`.

use std::io;

use jiff::{SignedDuration, Timestamp};
use outbox::ErrorKind;
use outbox::beats::{Seen, State};
use serde_json::{Value, json};

use super::output::Output;
use crate::health::OFFLINE_AFTER;
use crate::ops::Office;
use crate::trouble::Trouble;

/// How an instance is with a pipe, seen from outside.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    /// It stopped as it should.
    Stopped,
    /// It is gone without a word.
    Offline,
    /// As it tells.
    Told(State),
}

/// What the instances told of these pipes, or of all; nothing if nobody writes it down.
pub async fn read(office: &Office, pipes: Option<&[String]>) -> Result<Option<Vec<Seen>>, Trouble> {
    let Some(audit) = &office.plan.audit else { return Ok(None) };
    let listed = async { office.databases.beats(&audit.connection).await?.list().await };
    match listed.await {
        Ok(mut seen) => {
            seen.retain(|seen| pipes.is_none_or(|pipes| pipes.contains(&seen.beat.pipe)));
            Ok(Some(seen))
        }
        Err(error) if error.kind() == ErrorKind::NotMigrated => Ok(None),
        Err(error) => Err(Trouble::at_database("cannot tell which instances run", &audit.connection, &error)),
    }
}

fn standing(seen: &Seen) -> Standing {
    if seen.stopped {
        Standing::Stopped
    } else if seen.age > OFFLINE_AFTER {
        Standing::Offline
    } else {
        Standing::Told(seen.beat.state)
    }
}

/// The word for an instance that is gone without one.
pub const OFFLINE: &str = "offline";

/// How it is, in a word.
pub fn word(seen: &Seen) -> &'static str {
    match standing(seen) {
        Standing::Stopped => "stopped",
        Standing::Offline => OFFLINE,
        Standing::Told(state) => state.as_str(),
    }
}

/// When the last beat was, on our clock.
pub fn beat_at(seen: &Seen, now: Timestamp) -> Timestamp {
    now - SignedDuration::try_from(seen.age).unwrap_or(SignedDuration::ZERO)
}

/// One of them for scripts.
pub fn to_json(seen: &Seen) -> Value {
    let beat = &seen.beat;
    json!({
        "instance": beat.instance,
        "pipe": beat.pipe,
        "state": word(seen),
        "cause": beat.cause,
        "beat_at": beat_at(seen, Timestamp::now()),
        "age_seconds": seen.age.as_secs_f64(),
        "last_message_at": beat.last_message_at,
        "started_at": beat.started_at,
        "version": beat.version,
        "delivered": beat.delivered,
        "failed": beat.failed,
        "in_flight": beat.in_flight,
    })
}

/// All of them for people.
pub fn write_table(instances: &[Seen], output: &mut Output) -> io::Result<()> {
    if instances.is_empty() {
        return Ok(());
    }
    output.line("")?;
    let now = Timestamp::now();
    let rows: Vec<_> = instances.iter().map(|seen| to_cells(seen, now)).collect();
    output.table(&["instance", "pipe", "state", "last message", "version"], &rows)
}

fn to_cells(seen: &Seen, now: Timestamp) -> Vec<String> {
    let cause = seen.beat.cause.as_deref().map(|cause| format!(": {cause}")).unwrap_or_default();
    let state = match standing(seen) {
        Standing::Stopped => "stopped".to_owned(),
        Standing::Offline => format!("OFFLINE since {:.0}", beat_at(seen, now)),
        Standing::Told(State::Waiting) => format!("waiting for the sink{cause}"),
        // The cause says who wants it so.
        Standing::Told(State::Paused) if seen.beat.cause.is_some() => cause[2..].to_owned(),
        Standing::Told(state) => format!("{}{cause}", state.as_str()),
    };
    let last = seen.beat.last_message_at.map_or("-".to_owned(), |time| format!("{time:.0}"));
    vec![seen.beat.instance.clone(), seen.beat.pipe.clone(), state, last, seen.beat.version.clone()]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use outbox::beats::Beat;

    use super::*;

    fn seen(age: u64, stopped: bool, state: State, cause: Option<&str>) -> Seen {
        let beat = Beat {
            instance: "shop-1:4711:9f".to_owned(),
            pipe: "relay".to_owned(),
            version: "0.1.0".to_owned(),
            started_at: Timestamp::UNIX_EPOCH,
            state,
            cause: cause.map(str::to_owned),
            last_message_at: None,
            delivered: 0,
            failed: 0,
            in_flight: 0,
        };
        Seen { beat, age: Duration::from_secs(age), stopped }
    }

    #[test]
    fn d8_who_is_silent_for_90_s_is_offline_unless_it_stopped() {
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().expect("a time");
        for (seen, expected) in [
            (seen(0, false, State::Running, None), "running"),
            (seen(90, false, State::Running, None), "running"),
            (seen(91, false, State::Running, None), "OFFLINE since 2026-01-31T11:58:29Z"),
            (seen(91, false, State::Waiting, Some("x")), "OFFLINE since 2026-01-31T11:58:29Z"),
            (seen(91, true, State::Running, None), "stopped"),
            (seen(1, true, State::Running, None), "stopped"),
            (
                seen(1, false, State::Waiting, Some("UNREACHABLE: refused")),
                "waiting for the sink: UNREACHABLE: refused",
            ),
            (seen(1, false, State::Stopped, Some("no table")), "stopped: no table"),
            (seen(1, false, State::Starting, Some("away")), "starting: away"),
            (seen(1, false, State::Paused, Some("paused by ann since x")), "paused by ann since x"),
            (seen(91, false, State::Paused, Some("x")), "OFFLINE since 2026-01-31T11:58:29Z"),
        ] {
            assert_eq!(to_cells(&seen, now)[2], expected, "{seen:?}");
        }
        assert_eq!(to_json(&seen(91, false, State::Running, None))["state"], "offline");
    }
}

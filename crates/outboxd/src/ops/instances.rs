//! The instances that run the pipes, by their beats: part of the status.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outbox::ErrorKind;
use outbox::beats::{Seen, State};
use serde::Serialize;
use utoipa::ToSchema;

use super::Office;
use crate::trouble::Trouble;

/// After so long without a beat an instance is gone: they come every 30 s, and one or two may be lost.
pub const OFFLINE_AFTER: Duration = Duration::from_secs(90);

/// The word for an instance that is gone without one.
pub const OFFLINE: &str = "offline";

/// An instance and one of its pipes.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Instance {
    /// Its name.
    pub instance: String,
    /// The pipe.
    pub pipe: String,
    /// How it is: as it tells, `stopped`, or `offline` if it is gone without a word.
    pub state: &'static str,
    /// Why it is not as it should be.
    pub cause: Option<String>,
    /// When it was last heard of, on our clock.
    #[schema(value_type = String, format = DateTime)]
    pub beat_at: Timestamp,
    /// How long that is ago.
    pub age_seconds: f64,
    /// When it last carried a message.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_message_at: Option<Timestamp>,
    /// When it was started.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// Its version.
    pub version: String,
    /// Delivered since then.
    pub delivered: u64,
    /// Failed since then.
    pub failed: u64,
    /// Under way.
    pub in_flight: u64,
}

impl Instance {
    fn new(seen: Seen, now: Timestamp) -> Self {
        let state = if seen.stopped {
            "stopped"
        } else if seen.age > OFFLINE_AFTER {
            OFFLINE
        } else {
            seen.beat.state.as_str()
        };
        let beat = seen.beat;
        Self {
            instance: beat.instance,
            pipe: beat.pipe,
            state,
            cause: beat.cause,
            beat_at: now - SignedDuration::try_from(seen.age).unwrap_or(SignedDuration::ZERO),
            age_seconds: seen.age.as_secs_f64(),
            last_message_at: beat.last_message_at,
            started_at: beat.started_at,
            version: beat.version,
            delivered: beat.delivered,
            failed: beat.failed,
            in_flight: beat.in_flight,
        }
    }

    /// The state for people.
    pub fn told(&self) -> String {
        let cause = self.cause.as_deref().map(|cause| format!(": {cause}")).unwrap_or_default();
        match self.state {
            OFFLINE => format!("OFFLINE since {:.0}", self.beat_at),
            // The cause says who wants it so.
            state if state == State::Paused.as_str() && self.cause.is_some() => {
                self.cause.clone().unwrap_or_default()
            }
            state if state == State::Waiting.as_str() => format!("waiting for the sink{cause}"),
            state => format!("{state}{cause}"),
        }
    }
}

/// What the instances told of these pipes, or of all; nothing if nobody writes it down.
pub(super) async fn read(
    office: &Office,
    pipes: Option<&[String]>,
) -> Result<Option<Vec<Instance>>, Trouble> {
    let Some(audit) = &office.plan.audit else { return Ok(None) };
    let doing = "cannot tell which instances run";
    let listed = async {
        match async { office.databases.beats(&audit.connection).await?.list().await }.await {
            Ok(seen) => Ok(Some(seen)),
            Err(error) if error.kind() == ErrorKind::NotMigrated => Ok(None),
            Err(error) => Err(Trouble::at_database(doing, &audit.connection, &error)),
        }
    };
    let Some(mut seen) = office.look(doing, listed).await? else { return Ok(None) };
    seen.retain(|seen| pipes.is_none_or(|pipes| pipes.contains(&seen.beat.pipe)));
    let now = Timestamp::now();
    Ok(Some(seen.into_iter().map(|seen| Instance::new(seen, now)).collect()))
}

#[cfg(test)]
mod tests {
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
            assert_eq!(Instance::new(seen.clone(), now).told(), expected, "{seen:?}");
        }
        assert_eq!(Instance::new(seen(91, false, State::Running, None), now).state, "offline");
    }
}

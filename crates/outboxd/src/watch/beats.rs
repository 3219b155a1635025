//! Who runs which pipe, as all instances have told it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outbox::beats::Seen;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::fresh::Family;
use super::{goes_on, within};
use crate::backends::Databases;
use crate::connection::Connection;
use crate::plan::Plan;

const BEAT_AGE: &str = "outbox_beat_age_seconds";

/// A relay and a pipe that it runs.
type Run = (String, String);

/// What was last heard of every instance.
#[derive(Debug, Default)]
pub struct Instances(Mutex<Heard>);

#[derive(Debug, Default)]
struct Heard {
    /// Whether anybody has looked yet, with or without an answer.
    looked: bool,
    /// How old the last beat was, and when that was so; none if it is not known any more.
    beats: BTreeMap<Run, Option<(Duration, Instant)>>,
}

impl Instances {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there was a first look.
    pub fn is_looked_at(&self) -> bool {
        self.heard().looked
    }

    /// A look has found this, or got no answer. Who has stopped as it should is nobody to wait for.
    fn tell(&self, found: Option<&[Seen]>) {
        let mut heard = self.heard();
        heard.looked = true;
        let Some(found) = found else {
            return heard.beats.values_mut().for_each(|beat| *beat = None);
        };
        let now = Instant::now();
        let living = found.iter().filter(|seen| !seen.stopped);
        let beat =
            |seen: &Seen| ((seen.beat.instance.clone(), seen.beat.pipe.clone()), Some((seen.age, now)));
        heard.beats = living.map(beat).collect();
    }

    /// How long ago each was last heard.
    pub fn figures(&self) -> Vec<Family> {
        let age = |beat: &Option<(Duration, Instant)>| {
            beat.map_or(f64::NAN, |(age, at)| (age + at.elapsed()).as_secs_f64())
        };
        let heard = self.heard();
        let sample = |((relay, pipe), beat): (&Run, &Option<(Duration, Instant)>)| {
            (vec![("relay", relay.clone()), ("pipe", pipe.clone())], age(beat))
        };
        let help = "Since a relay last said that it runs the pipe; one that was stopped is not told of";
        vec![Family { name: BEAT_AGE, help, samples: heard.beats.iter().map(sample).collect() }]
    }
}

/// Looks at the beats of all instances, now and then; nothing where they have no database.
pub fn beats(plan: &Plan, databases: &Arc<Databases>, stop: &CancellationToken) -> Option<Arc<Instances>> {
    let connection = plan.audit.as_ref()?.connection.clone();
    let instances = Arc::<Instances>::default();
    tokio::spawn(look(instances.clone(), connection, databases.clone(), stop.clone()));
    Some(instances)
}

async fn look(
    instances: Arc<Instances>,
    connection: Connection,
    databases: Arc<Databases>,
    stop: CancellationToken,
) {
    loop {
        let found = within(async { databases.beats(&connection).await?.list().await }).await;
        instances.tell(found.as_deref());
        if !goes_on(&stop).await {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use outbox::beats::{Beat, State};

    use super::*;

    fn seen(instance: &str, age: u64, stopped: bool) -> Seen {
        let beat = Beat {
            instance: instance.to_owned(),
            pipe: "relay".to_owned(),
            version: "1".to_owned(),
            started_at: Timestamp::UNIX_EPOCH,
            state: State::Running,
            cause: None,
            last_message_at: None,
            delivered: 0,
            failed: 0,
            in_flight: 0,
        };
        Seen { beat, age: Duration::from_secs(age), stopped }
    }

    fn ages(instances: &Instances) -> Vec<(String, f64)> {
        let samples = instances.figures().remove(0).samples;
        samples.into_iter().map(|(labels, age)| (labels[0].1.clone(), age)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn d8_who_vanished_grows_older_and_who_stopped_is_not_told_of() {
        let instances = Instances::default();
        assert!(!instances.is_looked_at());
        instances.tell(Some(&[seen("a", 5, false), seen("b", 500, false), seen("c", 500, true)]));
        assert!(instances.is_looked_at());
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(ages(&instances), [("a".to_owned(), 8.0), ("b".to_owned(), 503.0)]);
        instances.tell(None);
        let unknown = ages(&instances);
        assert!(unknown.len() == 2 && unknown.iter().all(|(_, age)| age.is_nan()), "{unknown:?}");
        instances.tell(Some(&[seen("a", 1, true)]));
        assert_eq!(ages(&instances), []);
    }
}

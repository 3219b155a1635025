//! Looks at brokers. To look at a queue is to take its letters and to put them back: whoever stops half-way leaves them
//! counted as handed out, or in the queue twice. So a look that was begun comes to its end, whoever has gone meanwhile.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use outbox::{Error, ErrorKind, Result};

use super::Deeds;

/// The places at brokers that somebody of this process looks at, each with whose turn it is.
#[derive(Debug, Default)]
pub struct Looks {
    turns: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// The process does not end before they have.
    deeds: Deeds,
}

impl Looks {
    /// A stop waits for them as for these deeds.
    pub fn counted_by(deeds: Deeds) -> Self {
        Self { deeds, ..Self::default() }
    }

    /// Looks at `place` when nobody else of this process does, and then to the end. Who waits may give up at any time:
    /// before their turn nothing was begun, and after it only the answer is lost.
    pub async fn to_the_end<T: Send + 'static>(
        &self,
        place: &str,
        look: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let turn = self.turn(place).lock_owned().await;
        let looked = self.deeds.part(async move {
            let looked = look.await;
            drop(turn);
            looked
        });
        match looked.await.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(looked) => looked,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            Err(Err(_)) => Err(Error::new(ErrorKind::Unreachable, format!("{place}: the process is ending"))),
        }
    }

    fn turn(&self, place: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.entry(place.to_owned()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::sync::{oneshot, watch};
    use tokio::time::timeout;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_look_comes_to_its_end_when_nobody_waits_for_it_any_more() {
        let looks = Looks::default();
        let (go, gone) = oneshot::channel::<()>();
        let (ended, end) = oneshot::channel();
        let look = async move {
            gone.await.expect("it is told to go on");
            ended.send(()).expect("somebody listens");
            Ok(())
        };
        assert!(timeout(SHORT, looks.to_the_end("q", look)).await.is_err(), "nobody waits so long");
        go.send(()).expect("the look goes on");
        timeout(LONG, end).await.expect("in time").expect("it came to its end");
        let again = looks.to_the_end("q", async { Ok(1) });
        assert_eq!(timeout(LONG, again).await.expect("in time").expect("it is sound"), 1);
    }

    #[tokio::test]
    async fn a_place_is_looked_at_by_one_at_a_time_and_others_are_not_kept_waiting() {
        let looks = Looks::default();
        let (open, gate) = watch::channel(false);
        let begun = Arc::new(AtomicUsize::new(0));
        let look = || {
            let (mut gate, begun) = (gate.clone(), begun.clone());
            async move {
                begun.fetch_add(1, Ordering::SeqCst);
                gate.wait_for(|open| *open).await.expect("it opens");
                Ok(())
            }
        };
        assert!(timeout(SHORT, looks.to_the_end("q", look())).await.is_err());
        assert!(timeout(SHORT, looks.to_the_end("q", look())).await.is_err());
        assert_eq!(begun.load(Ordering::SeqCst), 1, "who gave up before their turn has begun nothing");
        let other = looks.to_the_end("other", async { Ok(()) });
        timeout(LONG, other).await.expect("in time").expect("it is sound");
        open.send(true).expect("somebody listens");
        timeout(LONG, looks.to_the_end("q", look())).await.expect("in time").expect("it is sound");
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }
}

//! What is begun and must come to its end, whoever has gone meanwhile: what is written down as begun must not be left half
//! done, also not by a stop.

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What this process does for people. A stop ends it only when all of it has ended.
#[derive(Debug, Clone, Default)]
pub struct Deeds {
    begun: TaskTracker,
    stop: CancellationToken,
}

impl Deeds {
    /// None is begun after this stop.
    pub fn until(stop: CancellationToken) -> Self {
        Self { stop, ..Self::default() }
    }

    /// Begins a deed, which then comes to its end also when nobody waits for it; nothing after the stop.
    pub fn begin<T: Send + 'static>(
        &self,
        deed: impl Future<Output = T> + Send + 'static,
    ) -> Option<JoinHandle<T>> {
        // Counted before it is asked whether there was a stop: whoever waits for the end does not miss it.
        let _counted = self.begun.token();
        let is_over = self.stop.is_cancelled() || self.begun.is_closed();
        (!is_over).then(|| self.part(deed))
    }

    /// Begins what belongs to a deed or to a look that was begun, also after the stop.
    pub fn part<T: Send + 'static>(&self, part: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.begun.spawn(part)
    }

    /// Takes no more, and returns when all that was begun has ended, or after the limit. How many have not.
    pub async fn ended(&self, limit: Duration) -> usize {
        self.begun.close();
        match tokio::time::timeout(limit, self.begun.wait()).await {
            Ok(()) => 0,
            Err(_) => self.begun.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn what_was_begun_before_the_stop_comes_to_its_end_and_nothing_is_begun_after_it() {
        let stop = CancellationToken::new();
        let deeds = Deeds::until(stop.clone());
        let (go, gone) = oneshot::channel::<()>();
        let (told, heard) = oneshot::channel();
        let of_deed = deeds.clone();
        let deed = deeds.begin(async move {
            gone.await.expect("it is told to go on");
            let part = of_deed.part(async { 7 });
            told.send(part.await.expect("no panic")).expect("somebody listens");
        });
        // Whoever asked has gone.
        drop(deed.expect("it is begun"));
        stop.cancel();
        assert!(deeds.begin(async {}).is_none(), "not after the stop");
        assert_eq!(deeds.ended(Duration::from_millis(20)).await, 1, "it is under way");
        go.send(()).expect("it waits");
        assert_eq!(deeds.ended(LONG).await, 0);
        assert_eq!(heard.await.expect("it came to its end"), 7);
    }

    #[tokio::test]
    async fn who_waits_for_the_end_takes_no_more() {
        let deeds = Deeds::default();
        let begun = deeds.begin(async { 1 }).expect("there was no stop");
        assert_eq!((begun.await.expect("no panic"), deeds.ended(LONG).await), (1, 0));
        assert!(deeds.begin(async {}).is_none());
    }
}

//! What went on in the outboxes in the last hour, where they write that down. To tell it may cost a database more than all
//! else that a page shows, so it is asked for seldom, and no page waits for it for long.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::ops::Office;
use crate::ops::status::{SourceActivity, activities};

/// What was told is good for so long, …
const GOOD: Duration = Duration::from_secs(15);

/// … and for so many times as long as it took: a large table is busy with it for a hundredth of the time at most.
const TIMES: u32 = 100;

/// So long a page waits for what is not known yet.
const MOMENT: Duration = Duration::from_millis(100);

/// What the outboxes told.
#[derive(Debug)]
pub(super) struct Lately {
    /// When.
    pub(super) at: Timestamp,
    /// What went on, of every outbox that knows.
    pub(super) sources: Vec<SourceActivity>,
    /// Those that did not answer in time, in words.
    pub(super) unknown: Vec<String>,
}

/// What the outboxes told last.
#[derive(Debug, Default)]
pub(super) struct Told {
    last: Mutex<Option<Arc<Lately>>>,
    /// Whose turn it is to ask, and when the next one may.
    turn: Arc<tokio::sync::Mutex<Option<Instant>>>,
}

impl Lately {
    async fn ask(office: &Office) -> Self {
        let (sources, troubles) = activities(office).await;
        let unknown = troubles.iter().map(|trouble| format!("{trouble}; {}", trouble.help())).collect();
        Self { at: Timestamp::now(), sources, unknown }
    }
}

impl Told {
    /// What was told last, asked for anew when it is too old. Who asks first waits for it a moment; nothing, if it takes
    /// longer than that.
    pub(super) async fn read(self: &Arc<Self>, office: &Arc<Office>) -> Option<Arc<Lately>> {
        if let Ok(mut next) = Arc::clone(&self.turn).try_lock_owned()
            && next.is_none_or(|next| next <= Instant::now())
        {
            let (told, office) = (Arc::clone(self), Arc::clone(office));
            tokio::spawn(async move {
                let begun = Instant::now();
                let lately = Arc::new(Lately::ask(&office).await);
                *told.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(lately);
                *next = Some(Instant::now() + good_for(begun.elapsed()));
            });
        }
        if self.last().is_none() {
            // It is free when it was told.
            let _ = tokio::time::timeout(MOMENT, self.turn.lock()).await;
        }
        self.last()
    }

    fn last(&self) -> Option<Arc<Lately>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How long something is good that took so long. Pure.
fn good_for(took: Duration) -> Duration {
    GOOD.max(took.saturating_mul(TIMES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn a10_what_takes_long_is_asked_for_seldom() {
        assert_eq!(good_for(Duration::from_millis(20)), GOOD);
        assert_eq!(good_for(Duration::from_secs(2)), Duration::from_secs(200));
    }

    #[tokio::test]
    async fn a10_pages_share_one_answer_and_an_outbox_that_is_away_is_named() {
        let text = "[connections]\nshop = \"sqlite:/nowhere/at/all/shop.db\"\n[sources.orders]\non = \"shop\"\n\
            [sinks.screen]\nstdout = true\n[pipes.relay]\nfrom = \"orders\"\nto = \"screen\"\n";
        let plan = Plan::parse(std::path::Path::new("/srv/outboxd.toml"), text, &|_| None);
        let office = Arc::new(Office::serving(Arc::new(plan.expect("it is valid").plan), Arc::default()));
        let told = Arc::new(Told::default());
        let first = tokio::time::timeout(Duration::from_secs(10), async {
            loop {
                if let Some(lately) = told.read(&office).await {
                    return lately;
                }
            }
        });
        let first = first.await.expect("it is told in time");
        assert!(first.sources.is_empty() && first.unknown[0].contains("orders"), "{first:?}");
        let again = told.read(&office).await.expect("it is known");
        assert!(Arc::ptr_eq(&first, &again), "it is asked for once");
    }
}

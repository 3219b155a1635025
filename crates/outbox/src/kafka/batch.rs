//! The reports of one call: who has been told what, and the wait until everybody has.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::error::RDKafkaErrorCode;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// What the client says of one message, once it does.
pub(super) type Report = Option<Result<(), RDKafkaErrorCode>>;

/// The reports of the messages of one call, by their positions.
#[derive(Debug)]
pub(super) struct Reports {
    state: Mutex<State>,
    complete: Notify,
}

#[derive(Debug)]
struct State {
    reports: Vec<Report>,
    open: usize,
}

impl Reports {
    /// None so far, of `count` messages that will be sent.
    pub(super) fn new(count: usize) -> Arc<Self> {
        let state = State { reports: vec![None; count], open: count };
        Arc::new(Self { state: Mutex::new(state), complete: Notify::new() })
    }

    /// What the client hands back with its report on the message at this position.
    pub(super) fn ticket(self: &Arc<Self>, at: usize) -> Box<Ticket> {
        Box::new(Ticket { reports: Arc::clone(self), at })
    }

    /// Waits until all have been reported; `false` when the time is over before.
    pub(super) async fn wait(&self, deadline: Instant) -> bool {
        let complete = async {
            // One waiter, and a notice that comes first is kept for it.
            while self.lock().open > 0 {
                self.complete.notified().await;
            }
        };
        timeout_at(deadline, complete).await.is_ok()
    }

    /// What has been reported until now.
    pub(super) fn take(&self) -> Vec<Report> {
        std::mem::take(&mut self.lock().reports)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one message among the reports of its call.
#[derive(Debug)]
pub(super) struct Ticket {
    reports: Arc<Reports>,
    at: usize,
}

impl Ticket {
    /// Writes the report down; the first one stands. One that comes after the call has ended is of no use to anybody.
    pub(super) fn report(&self, result: Result<(), RDKafkaErrorCode>) {
        let mut state = self.reports.lock();
        if let Some(slot @ None) = state.reports.get_mut(self.at) {
            *slot = Some(result);
            state.open -= 1;
            if state.open == 0 {
                self.reports.complete.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_wait_ends_with_the_last_report_or_with_the_time() {
        let reports = Reports::new(2);
        let soon = || Instant::now() + Duration::from_secs(1);
        let tickets = [reports.ticket(0), reports.ticket(1)];
        tickets[1].report(Ok(()));
        assert!(!reports.wait(soon()).await);
        tickets[1].report(Err(RDKafkaErrorCode::Fail));
        assert!(!reports.wait(soon()).await, "a second report of one message does not stand for another");
        tickets[0].report(Err(RDKafkaErrorCode::Fail));
        assert!(reports.wait(soon()).await);
        assert_eq!(reports.take(), [Some(Err(RDKafkaErrorCode::Fail)), Some(Ok(()))]);
        tickets[0].report(Ok(()));
    }
}

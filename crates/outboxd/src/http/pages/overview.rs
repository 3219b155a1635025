//! `/`: whether it is well, what is stuck and why, and the last hour.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;

use super::frame::{Frame, page};
use super::history::Minute;
use super::lately::Lately;
use super::stands::Stands;
use super::text::{age, counted, grouped, when};
use super::truth::truth;
use crate::health::{Judged, View};
use crate::http::Shared;
use crate::ops::Office;
use crate::quantity::show_age;

/// An hour, in minutes.
const HOUR: usize = 60;

/// So many minutes are shown one by one.
const SHOWN: usize = 10;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    pipes: Vec<Card>,
    stands: Arc<Stands>,
    pending: u64,
    in_flight: u64,
    waiting: u64,
    behind: u64,
    dead: u64,
    minutes: Vec<Minute>,
    /// What this instance did in the last hour.
    hour: Hour,
    /// What went on in the outboxes; nothing while they have not answered.
    lately: Option<Arc<Lately>>,
}

/// The deliveries of an hour.
#[derive(Debug, Default, PartialEq, Eq)]
struct Hour {
    delivered: u64,
    failed: u64,
}

impl Hour {
    fn of(minutes: &[Minute]) -> Self {
        let sum = |count: fn(&Minute) -> u64| minutes.iter().map(count).sum();
        Self { delivered: sum(|minute| minute.delivered), failed: sum(|minute| minute.failed) }
    }

    /// How often a delivery was tried again, on an average; nothing if there was none.
    #[allow(clippy::cast_precision_loss, reason = "nobody delivers that many in an hour")]
    fn retries(&self) -> Option<String> {
        (self.delivered > 0).then(|| format!("{:.2}", self.failed as f64 / self.delivered as f64))
    }
}

struct Card {
    view: View,
    judged: Judged,
    /// The page that shows its messages.
    messages: String,
}

impl Card {
    fn lag(&self) -> String {
        self.view.lag.map_or("none waits".to_owned(), |lag| show_age(lag.as_secs_f64()))
    }
}

fn minute(at: &i64) -> String {
    Timestamp::from_second(*at).map(|time| clock(&time)).unwrap_or_default()
}

fn clock(time: &Timestamp) -> String {
    time.strftime("%H:%M").to_string()
}

fn card(office: &Office, view: View, judged: Judged) -> Card {
    let is_on_broker = office.plan.sources.get(&view.from).is_some_and(|source| source.is_on_broker());
    let messages = if is_on_broker {
        "/queues".to_owned()
    } else {
        // Names of pipes and sources have no signs that an address could mistake.
        format!("/messages?source={}&filter=pipe%3A{}", view.from, view.pipe)
    };
    Card { view, judged, messages }
}

/// The overview.
pub(super) async fn overview(State(shared): State<Arc<Shared>>, mut frame: Frame) -> Response {
    let (stands, lately) =
        futures_util::join!(shared.board.stands(&shared.office), shared.board.lately.read(&shared.office));
    let judged = shared.options.health.judged();
    // What was just counted is the truth.
    frame.truth = truth(&judged, &shared.board.known());
    let minutes = shared.board.minutes(HOUR);
    let overview = Overview {
        pending: stands.sum(|lane| lane.pending),
        in_flight: judged.iter().map(|(view, _)| view.in_flight).sum(),
        waiting: stands.sum(|lane| lane.waiting),
        behind: stands.sum(|lane| lane.behind),
        dead: stands.sum(|lane| lane.dead),
        pipes: judged.into_iter().map(|(view, judged)| card(&shared.office, view, judged)).collect(),
        hour: Hour::of(&minutes),
        minutes: minutes.into_iter().take(SHOWN).collect(),
        lately,
        stands,
        frame,
    };
    page(&overview.frame, &overview)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e6_an_hour_tells_how_often_a_delivery_was_tried_again() {
        let minute = |delivered, failed| Minute { at: 0, delivered, failed, lag: None };
        let hour = Hour::of(&[minute(3, 1), minute(5, 1)]);
        assert_eq!(hour, Hour { delivered: 8, failed: 2 });
        assert_eq!((hour.retries().as_deref(), Hour::default().retries()), (Some("0.25"), None));
    }
}

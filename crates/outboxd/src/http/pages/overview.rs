//! `/`: whether it is well, what is stuck and why, and the last hour.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;

use super::frame::{Frame, page};
use super::history::Minute;
use super::stands::Stands;
use super::text::{age, counted, grouped, when};
use super::truth::truth;
use crate::health::{Judged, View};
use crate::http::Shared;
use crate::ops::Office;
use crate::quantity::show_age;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    pipes: Vec<Card>,
    stands: Stands,
    pending: u64,
    in_flight: u64,
    waiting: u64,
    behind: u64,
    dead: u64,
    minutes: Vec<Minute>,
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
    Timestamp::from_second(*at).map(|time| time.strftime("%H:%M").to_string()).unwrap_or_default()
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
    let stands = Stands::read(&shared.office, &shared.board).await;
    let judged = shared.options.health.judged();
    // What was just counted is the truth.
    frame.truth = truth(&judged, &shared.board.known());
    let overview = Overview {
        pending: stands.sum(|lane| lane.pending),
        in_flight: judged.iter().map(|(view, _)| view.in_flight).sum(),
        waiting: stands.sum(|lane| lane.waiting),
        behind: stands.sum(|lane| lane.behind),
        dead: stands.sum(|lane| lane.dead),
        pipes: judged.into_iter().map(|(view, judged)| card(&shared.office, view, judged)).collect(),
        minutes: shared.board.minutes(10),
        stands,
        frame,
    };
    page(&overview.frame, &overview)
}

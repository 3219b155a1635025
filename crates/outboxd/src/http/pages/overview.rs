//! `/`: whether it is well, what is stuck and why, and the last hour.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;

use super::frame::{Frame, page};
use super::history::Minute;
use super::text::{age, grouped, when};
use crate::health::{Judged, View};
use crate::http::Shared;
use crate::quantity::show_age;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    pipes: Vec<Card>,
    minutes: Vec<Minute>,
}

struct Card {
    view: View,
    judged: Judged,
}

impl Card {
    fn lag(&self) -> String {
        self.view.lag.map_or("none waits".to_owned(), |lag| show_age(lag.as_secs_f64()))
    }
}

fn minute(at: &i64) -> String {
    Timestamp::from_second(*at).map(|time| time.strftime("%H:%M").to_string()).unwrap_or_default()
}

/// The overview.
pub(super) async fn overview(State(shared): State<Arc<Shared>>, frame: Frame) -> Response {
    let pipes = shared.options.health.judged().into_iter().map(|(view, judged)| Card { view, judged });
    let overview = Overview { pipes: pipes.collect(), minutes: shared.board.minutes(10), frame };
    page(&overview.frame, &overview)
}

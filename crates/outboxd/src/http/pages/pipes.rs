//! `/pipes`: how every pipe is in every instance, and whether it stands still.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use super::carry_out::to_the_end;
use super::frame::{Frame, done, page};
use super::given::{At, Filled};
use super::said::asked;
use super::stands::{Lane, Stands};
use super::text::{age, counted, grouped, when};
use crate::http::Shared;
use crate::http::answer::Refusal;
use crate::http::person::Operator;
use crate::ops;
use crate::ops::pause::{pause_one, resume_one};
use crate::ops::pipes::PipesAnswer;

#[derive(Template)]
#[template(path = "pipes.html")]
struct Pipes {
    frame: Frame,
    shown: PipesAnswer,
    stands: Arc<Stands>,
}

impl Pipes {
    /// How a pipe stands in its source, lane by lane.
    fn lanes(&self, pipe: &str) -> impl Iterator<Item = &Lane> {
        self.stands.lanes.iter().filter(move |lane| lane.pipe == pipe)
    }
}

/// The pipes.
pub(super) async fn pipes(State(shared): State<Arc<Shared>>, frame: Frame) -> Response {
    let (office, health) = (&shared.options.office, &shared.options.health);
    let (shown, stands) =
        futures_util::join!(ops::pipes::pipes(office, health), shared.board.stands(&shared.office));
    page(&frame.clone(), &Pipes { frame, shown, stands })
}

/// Why a pipe is paused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Note {
    #[serde(default)]
    note: String,
}

/// Lets a pipe stand still.
pub(super) async fn pause(
    State(shared): State<Arc<Shared>>,
    Operator(person): Operator,
    At(pipe): At<String>,
    Filled(Note { note }): Filled<Note>,
) -> Result<Response, Refusal> {
    let (office, name) = (shared.office.clone(), pipe.clone());
    let paused = async move { Ok(pause_one(&office, &name, asked(&note).as_deref(), &person.name).await?) };
    let said = match to_the_end(&shared.office, paused).await? {
        Some(answer) if !answer.changed => "was paused already",
        Some(_) => "is paused, in all instances",
        None => "will be paused as soon as the database answers",
    };
    shared.board.changed().await;
    Ok(done("/pipes", &format!("Pipe '{pipe}' {said}.")))
}

/// Lets a pipe go on.
pub(super) async fn resume(
    State(shared): State<Arc<Shared>>,
    Operator(person): Operator,
    At(pipe): At<String>,
) -> Result<Response, Refusal> {
    let (office, name) = (shared.office.clone(), pipe.clone());
    let resumed = async move { Ok(resume_one(&office, &name, &person.name).await?) };
    let said = match to_the_end(&shared.office, resumed).await? {
        Some(answer) if !answer.changed => "was not paused",
        Some(_) => "goes on, in all instances",
        None => "will go on as soon as the database answers",
    };
    shared.board.changed().await;
    Ok(done("/pipes", &format!("Pipe '{pipe}' {said}.")))
}

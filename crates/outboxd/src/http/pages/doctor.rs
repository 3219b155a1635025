//! `/doctor`: what was found at every source and sink, with the fix to copy. A look may take a while, so the last one is
//! kept until somebody asks for another.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use outbox::Level;

use super::frame::{Frame, done, page};
use super::text::when;
use crate::http::Shared;
use crate::http::answer::Refusal;
use crate::http::person::Operator;
use crate::ops::doctor::{DoctorRequest, Report, doctor};

/// So long a look is shown.
const KEPT: Duration = Duration::from_secs(10 * 60);

/// The last look.
#[derive(Default)]
pub(super) struct LastLook(Mutex<Option<(Timestamp, Arc<Report>)>>);

impl LastLook {
    fn get(&self) -> Option<(Timestamp, Arc<Report>)> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let kept = SignedDuration::try_from(KEPT).unwrap_or(SignedDuration::MAX);
        last.filter(|(at, _)| Timestamp::now().duration_since(*at) < kept)
    }

    async fn look(&self, shared: &Shared) -> Result<(Timestamp, Arc<Report>), Refusal> {
        let report = doctor(&shared.options.office, &DoctorRequest::default()).await?;
        let look = (Timestamp::now(), Arc::new(report));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(look.clone());
        Ok(look)
    }
}

#[derive(Template)]
#[template(path = "doctor.html")]
struct Doctor {
    frame: Frame,
    at: Timestamp,
    report: Arc<Report>,
}

impl Doctor {
    fn count(&self, level: Level) -> usize {
        self.report.findings.iter().filter(|line| line.level == level).count()
    }

    fn levels(&self) -> [(Level, &'static str, usize); 3] {
        [
            (Level::Failure, "failing", Level::Failure),
            (Level::Warning, "warning", Level::Warning),
            (Level::Ok, "ok", Level::Ok),
        ]
        .map(|(level, word, counted)| (level, word, self.count(counted)))
    }
}

/// The last look, or a first one.
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    _: Operator,
    frame: Frame,
) -> Result<Response, Refusal> {
    let last = &shared.board.last_look;
    let (at, report) = match last.get() {
        Some(look) => look,
        None => last.look(&shared).await?,
    };
    Ok(page(&frame.clone(), &Doctor { frame, at, report }))
}

/// Looks again.
pub(super) async fn look(State(shared): State<Arc<Shared>>, _: Operator) -> Result<Response, Refusal> {
    let (_, report) = shared.board.last_look.look(&shared).await?;
    let count = report.findings.len();
    Ok(done("/doctor", &format!("Looked at {count} things.")))
}

//! The pipes of the plan, and how every instance is with them.

use futures_util::future::join;
use jiff::Timestamp;
use outbox::pauses::Pause;
use serde::Serialize;
use utoipa::ToSchema;

use super::Office;
use super::instances::{self, Instance, OFFLINE};
use super::pause::{PauseShown, pauses};
use crate::health::{Away, Health, Judged, View};
use crate::plan::PipePlan;
use crate::trouble::Trouble;

/// The pipes of the plan.
#[derive(Debug, Serialize, ToSchema)]
pub struct PipesAnswer {
    /// By name.
    pub pipes: Vec<PipeShown>,
    /// What could not be found out, and what to do about it: then only what this instance knows is shown.
    pub remarks: Vec<String>,
}

/// A pipe of the plan.
#[derive(Debug, Serialize, ToSchema)]
pub struct PipeShown {
    /// Its name.
    pub pipe: String,
    /// The name of its source.
    pub from: String,
    /// The name of its sink.
    pub to: String,
    /// Who paused it, if it is paused.
    pub paused: Option<PauseShown>,
    /// Who runs it; the one that was asked first.
    pub instances: Vec<PipeInstance>,
}

/// How a pipe is in one instance.
#[derive(Debug, Serialize, ToSchema)]
pub struct PipeInstance {
    /// The name of the instance.
    pub instance: String,
    /// It is the one that was asked; of others only what they last told is known.
    pub own: bool,
    /// `starting`, `running`, `waiting`, `paused`, `stopped` or `offline`.
    pub state: String,
    /// Nothing was heard of it for 90 s, and it did not stop as it should.
    pub offline: bool,
    /// Why it does not run.
    pub cause: Option<String>,
    /// Whether its breaker is open; only of the one that was asked.
    pub breaker: Option<BreakerShown>,
    /// Age of the oldest message that is neither done nor dead; only of the one that was asked.
    pub lag_seconds: Option<f64>,
    /// When a message was last settled.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_message_at: Option<Timestamp>,
    /// Messages delivered since the start.
    pub delivered: u64,
    /// Attempts that failed since the start.
    pub failed: u64,
    /// Messages that are claimed and not settled yet.
    pub in_flight: u64,
    /// When this was told.
    #[schema(value_type = String, format = DateTime)]
    pub told_at: Timestamp,
    /// The version of its program.
    pub version: String,
}

/// What stops a pipe while its sink takes nothing.
#[derive(Debug, Serialize, ToSchema)]
pub struct BreakerShown {
    /// Whether it is open.
    pub open: bool,
    /// Since when.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Timestamp>,
    /// Why.
    pub why: Option<String>,
}

/// The pipes, as this instance knows them and as the others have told. A database that is away hides only the others.
pub async fn pipes(office: &Office, health: &Health) -> PipesAnswer {
    let told = instances::read(office, None);
    let paused = office.look("cannot tell which pipes are paused", pauses(office));
    let (told, paused) = join(told, paused).await;
    let (mut remarks, now) = (Vec::new(), Timestamp::now());
    let mut remark = |trouble: Trouble| remarks.push(format!("{trouble}; {}", trouble.help()));
    let told = told.map_err(&mut remark).ok().flatten().unwrap_or_default();
    let paused = paused.map_err(&mut remark).ok();
    let own = health.judged();
    let shown = |pipe: &PipePlan| {
        let ours = own.iter().find(|(view, _)| view.pipe == pipe.name);
        let pause = match &paused {
            Some(paused) => find(paused, &pipe.name),
            None => ours.and_then(|(view, _)| view.pause.as_ref()),
        };
        let others = told.iter().filter(|told| told.pipe == pipe.name);
        let others = others.filter(|told| told.instance != health.instance);
        let ours_first = ours.map(|(view, judged)| of_own(&health.instance, view, judged, now));
        PipeShown {
            pipe: pipe.name.clone(),
            from: pipe.from.clone(),
            to: pipe.to.clone(),
            paused: pause.map(Into::into),
            instances: ours_first.into_iter().chain(others.map(of_other)).collect(),
        }
    };
    PipesAnswer { pipes: office.plan.pipes.values().map(shown).collect(), remarks }
}

fn find<'p>(pauses: &'p [Pause], pipe: &str) -> Option<&'p Pause> {
    pauses.iter().find(|pause| pause.pipe == pipe)
}

fn of_own(instance: &str, view: &View, judged: &Judged, now: Timestamp) -> PipeInstance {
    let open: Option<&Away> = view.open.as_ref();
    PipeInstance {
        instance: instance.to_owned(),
        own: true,
        state: judged.state.as_str().to_owned(),
        offline: false,
        cause: judged.cause.clone(),
        breaker: Some(BreakerShown {
            open: open.is_some(),
            since: open.map(|away| away.since),
            why: open.map(|away| away.why.clone()),
        }),
        lag_seconds: view.lag.map(|lag| lag.as_secs_f64()),
        last_message_at: view.last_message_at,
        delivered: view.delivered,
        failed: view.failed,
        in_flight: view.in_flight,
        told_at: now,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn of_other(told: &Instance) -> PipeInstance {
    PipeInstance {
        instance: told.instance.clone(),
        own: false,
        state: told.state.to_owned(),
        offline: told.state == OFFLINE,
        cause: told.cause.clone(),
        breaker: None,
        lag_seconds: None,
        last_message_at: told.last_message_at,
        delivered: told.delivered,
        failed: told.failed,
        in_flight: told.in_flight,
        told_at: told.beat_at,
        version: told.version.clone(),
    }
}

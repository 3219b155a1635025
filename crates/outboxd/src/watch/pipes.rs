//! How the pipes of this process are at the moment.

use super::fresh::{Family, Sample};
use crate::health::{Health, Judged, Phase, View};

const SINK_OPEN: &str = "outbox_sink_open";
const IN_FLIGHT: &str = "outbox_in_flight";
const RUNNING: &str = "outbox_pipe_running";
const LAST_MESSAGE: &str = "outbox_last_message_timestamp_seconds";

/// What is known of the pipes, without asking anybody.
pub fn of_pipes(health: &Health) -> Vec<Family> {
    families(&health.judged())
}

#[allow(clippy::cast_precision_loss, reason = "nobody counts that far")]
fn families(pipes: &[(View, Judged)]) -> Vec<Family> {
    let each = |value: fn(&View) -> Option<f64>| -> Vec<Sample> {
        let sample = |(view, _): &(View, Judged)| Some((vec![("pipe", view.pipe.clone())], value(view)?));
        pipes.iter().filter_map(sample).collect()
    };
    vec![
        Family {
            name: SINK_OPEN,
            help: "1 while the breaker is open: the sink takes nothing",
            samples: each(|view| Some(f64::from(u8::from(view.open.is_some())))),
        },
        Family {
            name: IN_FLIGHT,
            help: "Messages that are claimed and not settled",
            samples: each(|view| Some(view.in_flight as f64)),
        },
        Family {
            name: RUNNING,
            help: "1 while the pipe runs",
            samples: each(|view| Some(f64::from(u8::from(view.phase == Phase::Running)))),
        },
        Family {
            name: LAST_MESSAGE,
            help: "When a message was last settled, in Unix time",
            samples: each(|view| view.last_message_at.map(|at| at.as_millisecond() as f64 / 1000.0)),
        },
    ]
}

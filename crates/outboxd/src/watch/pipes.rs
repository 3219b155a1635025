//! How the pipes of this process are at the moment.

use super::fresh::{Family, Sample};
use crate::health::{Health, Judged, Phase, View};

const SINK_OPEN: &str = "outbox_sink_open";
const IN_FLIGHT: &str = "outbox_in_flight";
const RUNNING: &str = "outbox_pipe_running";
const ENDED: &str = "outbox_pipe_ended";
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
            name: ENDED,
            help: "1 once the pipe has ended and will not go on, though nobody has stopped it",
            // One that has not started yet, or rests, or was told to stop has not.
            samples: each(|view| Some(f64::from(u8::from(matches!(view.phase, Phase::Ended(Some(_))))))),
        },
        Family {
            name: LAST_MESSAGE,
            help: "When a message was last settled, in Unix time",
            samples: each(|view| view.last_message_at.map(|at| at.as_millisecond() as f64 / 1000.0)),
        },
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::health::{Watched, judge};
    use crate::options::PipeOptions;
    use crate::plan::PipePlan;

    #[test]
    fn d7_only_a_pipe_that_cannot_go_on_has_ended() {
        let options = PipeOptions::default();
        let plan = PipePlan { name: "relay".into(), from: "orders".into(), to: "events".into(), options };
        let pipe = Watched::new(&plan, std::time::Duration::ZERO);
        let figures = || {
            let view = pipe.view();
            let judged = judge(&view, jiff::Timestamp::now());
            let families = families(&[(view, judged)]);
            [RUNNING, ENDED].map(|name| {
                families.iter().find(|family| family.name == name).expect("it is told").samples[0].1
            })
        };
        pipe.source_failed("away");
        assert_eq!(figures(), [0.0, 0.0], "it starts");
        pipe.started(Arc::default());
        assert_eq!(figures(), [1.0, 0.0]);
        pipe.rests();
        assert_eq!(figures(), [0.0, 0.0], "it rests");
        pipe.started(Arc::default());
        pipe.ended(Some("no table".to_owned()));
        assert_eq!(figures(), [0.0, 1.0]);
        pipe.rests();
        pipe.started(Arc::default());
        pipe.ended(None);
        assert_eq!(figures(), [0.0, 0.0], "it was told to");
    }
}

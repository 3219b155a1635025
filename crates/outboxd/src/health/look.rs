//! Looks at what a pipe does not meet by itself: a broker while nothing is sent, what is in the source.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use outbox::ErrorKind;
use outbox::admin::CursorStatus;
use tokio_util::sync::CancellationToken;

use super::Watched;
use crate::backends::Log;
use crate::watch::Stands;

/// How often.
const PAUSE: Duration = Duration::from_secs(10);

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a sink can be reached.
pub type Check = Box<dyn Fn() -> BoxFuture<'static, outbox::Result<()>> + Send + Sync>;

/// Looks at a sink again and again, for the pipes that lead to it.
pub async fn look_at_sink(check: Check, pipes: Vec<Arc<Watched>>, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_some() {
        let found = match tokio::time::timeout(PATIENCE, check()).await {
            Err(_) => Err("no answer".to_owned()),
            Ok(Err(error)) if error.is_temporary() || error.kind() == ErrorKind::Denied => Err(error.chain()),
            // It is there. What is not as configured the pipe tells when it meets it.
            Ok(_) => Ok(()),
        };
        pipes.iter().for_each(|pipe| pipe.sink_looked_at(found.clone()));
    }
}

/// Looks at an outbox again and again, for the figures and for the pipes that read it. Whether it answers those know
/// themselves. The process may go on without these pipes: after the last look nothing is known.
pub async fn look_at_source(
    log: Log,
    mut stands: Stands,
    pipes: Vec<Arc<Watched>>,
    owner: String,
    stop: CancellationToken,
) {
    loop {
        let looked = tokio::time::timeout(PATIENCE, log.admin().status()).await;
        let found = looked.ok().and_then(Result::ok);
        stands.tell(found.as_deref());
        for (cursors, pipe) in found.iter().flat_map(|cursors| pipes.iter().map(move |pipe| (cursors, pipe)))
        {
            let (lag, pending) = stand(cursors, &pipe.name, &owner);
            pipe.source_looked_at(lag, pending);
        }
        if stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
            return stands.tell_end();
        }
    }
}

/// How old the oldest message of a pipe is, and whether any is ours to claim: of a cursor that another relay owns none is.
fn stand(cursors: &[CursorStatus], pipe: &str, owner: &str) -> (Option<Duration>, bool) {
    let of_pipe = || cursors.iter().filter(|cursor| cursor.cursor == pipe);
    let lag = of_pipe().filter_map(|cursor| cursor.lag_seconds).reduce(f64::max);
    let lag = lag.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let pending = of_pipe().any(|cursor| cursor.owner.as_deref() == Some(owner) && cursor.pending > 0);
    (lag, pending)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(name: &str, owner: Option<&str>, pending: u64, lag_seconds: Option<f64>) -> CursorStatus {
        CursorStatus {
            cursor: name.to_owned(),
            lane: 0,
            lanes: 1,
            owner: owner.map(str::to_owned),
            lease_until: None,
            pending,
            lag_seconds,
            waiting: 0,
            behind: 0,
            dead: 0,
            delivered: None,
        }
    }

    #[test]
    fn d8_what_another_relay_owns_is_not_ours_to_claim() {
        let cursors = [
            cursor("relay", Some("us"), 0, Some(2.0)),
            cursor("relay", Some("them"), 5, Some(7.0)),
            cursor("mailer", Some("us"), 5, None),
        ];
        assert_eq!(stand(&cursors, "relay", "us"), (Some(Duration::from_secs(7)), false));
        assert_eq!(stand(&cursors, "mailer", "us"), (None, true));
        assert_eq!(stand(&cursors, "other", "us"), (None, false));
    }
}

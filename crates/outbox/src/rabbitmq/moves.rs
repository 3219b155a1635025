//! Moves messages to other queues: confirmed and routed, before anything is acknowledged.

use bytes::Bytes;
use lapin::types::ShortString;
use tokio::time::Instant;

use super::confirm::{self, Fate};
use super::connection::Session;
use super::envelope::Envelope;
use super::error::{into_error, publish_fault};
use super::publish::{Ending, Parcel, publish};
use crate::error::{Error, ErrorKind};
use crate::sink::{Cause, code};

/// A message on its way to another queue; `at` is its place among those of the caller.
pub(super) struct Move {
    pub(super) at: usize,
    pub(super) envelope: Envelope,
    pub(super) payload: Bytes,
}

/// Sends them, in their order. Tells which have arrived, and what befell the others if there are any.
pub(super) async fn send(
    session: &Session,
    place: &str,
    moves: &[Move],
    deadline: Instant,
) -> (Vec<usize>, Option<Error>) {
    if moves.is_empty() {
        return (Vec::new(), None);
    }
    if let Some(reason) = session.blocked() {
        let why = format!("{place}: the broker blocks publishers: {reason}");
        return (Vec::new(), Some(Error::new(ErrorKind::Busy, why)));
    }
    let channel = match session.channel(place, deadline).await {
        Ok(channel) => channel,
        Err(cause) => return (Vec::new(), Some(into_error(&cause))),
    };
    let parcels: Vec<Parcel<'_>> =
        moves.iter().map(|it| Parcel { envelope: it.envelope.clone(), payload: &it.payload }).collect();
    let (receipts, ending) = publish(&channel, &ShortString::default(), parcels, deadline).await;
    let id = |it: &Move| it.envelope.properties.message_id().as_ref().map(ToString::to_string);
    let ids: Vec<String> = moves.iter().map(|it| id(it).unwrap_or_default()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let fates = confirm::read(&ids, &receipts);
    let arrived = moves.iter().zip(&fates).filter(|(_, fate)| **fate == Fate::Delivered);
    let arrived: Vec<usize> = arrived.map(|(it, _)| it.at).collect();
    let cause = match ending {
        Ending::Complete => {
            session.give_back(channel);
            None
        }
        Ending::TimedOut => Some(Cause::new(code::TIMEOUT, format!("{place}: no confirm in time"))),
        Ending::Broken(error) => Some(publish_fault(place, &error).into_cause()),
    };
    if arrived.len() == moves.len() {
        return (arrived, None);
    }
    let failed = moves.iter().zip(&fates).find(|(_, fate)| matches!(fate, Fate::Unroutable | Fate::Nacked));
    let error = match (failed, cause) {
        (Some((it, fate)), _) => {
            let queue = it.envelope.routing_key.as_str();
            let (kind, why) = match fate {
                Fate::Unroutable => (ErrorKind::NotFound, "is gone"),
                _ => (ErrorKind::Busy, "takes nothing; it may be full"),
            };
            Error::new(kind, format!("{place}: the queue '{queue}' {why}"))
        }
        (None, Some(cause)) => into_error(&cause),
        (None, None) => Error::new(ErrorKind::Timeout, format!("{place}: no confirm")),
    };
    (arrived, Some(error))
}

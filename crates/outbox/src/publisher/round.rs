//! The way of one batch, of which every message has another key: ask the store, send, keep.

use std::collections::HashSet;
use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use super::gate::Way;
use super::{Entry, Kept, Published, Shared};
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, MessageId};
use crate::sink::{Cause, Outcome, Rejection, code};

/// What the store may take; only ever reached by one that has fallen silent.
const STORE_LIMIT: Duration = Duration::from_secs(10);

/// Entries to be kept, each with the reason.
type ToKeep = Vec<(Entry, Kept)>;

/// Takes a batch to its end: every caller is told.
pub(super) async fn run(shared: &Shared, batch: Vec<Entry>) {
    let now = Instant::now();
    let is_late = |entry: &Entry| now.duration_since(entry.since) >= shared.timeout;
    let (late, batch): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_late);
    let mut to_keep = kept(late, &slow(shared.timeout));
    let free = match shared.gate.way(now) {
        Way::Shut(cause) => {
            to_keep.extend(kept(batch, &cause));
            Vec::new()
        }
        Way::Open => ask(shared, batch, &mut to_keep).await,
        Way::Probe(cause) => {
            let mut free = ask(shared, batch, &mut to_keep).await;
            let probes = !free.is_empty() && shared.gate.start_probe(Instant::now());
            to_keep.extend(kept(free.split_off(usize::from(probes)), &cause));
            free
        }
    };
    send(shared, free, &mut to_keep).await;
    keep(shared, to_keep).await;
}

fn kept(entries: Vec<Entry>, cause: &Cause) -> ToKeep {
    entries.into_iter().map(|entry| (entry, Kept::Cause(cause.clone()))).collect()
}

fn slow(limit: Duration) -> Cause {
    Cause::new(code::TIMEOUT, format_args!("its turn to be sent did not come within {limit:?}"))
}

/// Sorts out what stands behind one that is kept; the rest may be sent.
async fn ask(shared: &Shared, batch: Vec<Entry>, to_keep: &mut ToKeep) -> Vec<Entry> {
    let keys: Vec<&str> = batch.iter().filter_map(|entry| entry.message.key.as_deref()).collect();
    let held = match keys.as_slice() {
        [] => Ok(HashSet::new()),
        keys => in_time("asking what is kept", shared.store.has_kept(keys)).await,
    };
    let mut free = Vec::with_capacity(batch.len());
    for entry in batch {
        match (&entry.message.key, &held) {
            (None, _) => free.push(entry),
            (Some(key), Ok(held)) if held.contains(key) => to_keep.push((entry, Kept::Behind)),
            (Some(_), Ok(_)) => free.push(entry),
            (Some(_), Err(error)) => {
                let what = "was not sent: whether an earlier one of its key is kept is not known";
                let error = same(error, format!("message {} {what}", entry.message.id));
                entry.tell(Err(error));
            }
        }
    }
    free
}

/// Sends what may be sent; what was not taken, and can be some other time, is to be kept.
async fn send(shared: &Shared, entries: Vec<Entry>, to_keep: &mut ToKeep) {
    if entries.is_empty() {
        return;
    }
    let outcomes = deliver(shared, &entries).await;
    shared.gate.observe(&outcomes, Instant::now());
    for (entry, outcome) in entries.into_iter().zip(outcomes) {
        match outcome {
            Outcome::Delivered => entry.tell(Ok(Published::Confirmed)),
            Outcome::Rejected(Rejection { cause, permanent: true, .. }) => {
                let error = refused(&entry.message.id, &cause);
                entry.tell(Err(error));
            }
            Outcome::Rejected(Rejection { cause, .. }) | Outcome::Unavailable(cause) => {
                to_keep.push((entry, Kept::Cause(cause)));
            }
        }
    }
}

fn refused(id: &MessageId, cause: &Cause) -> Error {
    Error::new(ErrorKind::Invalid, format!("message {id} was refused for good: {cause}"))
}

/// One outcome for each, within the time. A call that takes longer is left to its own end: to cut it off would not take
/// back what it has sent.
async fn deliver(shared: &Shared, entries: &[Entry]) -> Vec<Outcome> {
    let messages: Vec<Message> = entries.iter().map(|entry| entry.message.clone()).collect();
    let sink = shared.sink.clone();
    let call = tokio::spawn(async move { sink.deliver(&messages).await });
    let cause = match tokio::time::timeout(shared.timeout, call).await {
        Ok(Ok(outcomes)) if outcomes.len() == entries.len() => return outcomes,
        Ok(Ok(_)) => Cause::new(code::PANIC, "the sink did not tell of every message"),
        Ok(Err(_)) => Cause::new(code::PANIC, "the sink ended by a bug"),
        Err(_) => Cause::new(
            code::TIMEOUT,
            format_args!("no answer within {:?}; it may have arrived all the same", shared.timeout),
        ),
    };
    vec![Outcome::Unavailable(cause); entries.len()]
}

/// Keeps what is to be kept, in one go; where that fails for a reason that may be one message's own, each by itself.
async fn keep(shared: &Shared, entries: ToKeep) {
    if entries.is_empty() {
        return;
    }
    let messages: Vec<Message> = entries.iter().map(|(entry, _)| entry.message.clone()).collect();
    match in_time("keeping messages", shared.store.keep(&messages)).await {
        Ok(()) => entries.into_iter().for_each(|(entry, why)| entry.tell(Ok(Published::Kept(why)))),
        Err(error) if error.is_temporary() || entries.len() == 1 => {
            for (entry, why) in entries {
                let what = format!("message {} was neither confirmed ({why}) nor kept", entry.message.id);
                entry.tell(Err(same(&error, what)));
            }
        }
        Err(_) => {
            for one in entries {
                Box::pin(keep(shared, vec![one])).await;
            }
        }
    }
}

/// The error of a batch, told of one message.
fn same(error: &Error, what: String) -> Error {
    Error::new(error.kind(), what).caused_by(error.chain())
}

async fn in_time<T>(doing: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(STORE_LIMIT, work).await.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Timeout, format!("{doing} took longer than {STORE_LIMIT:?}")))
    })
}

//! Publishes messages on one channel and awaits what the broker answers to each.

use futures_util::future::maybe_done;
use futures_util::poll;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{Channel, Confirmation, PublisherConfirm};
use tokio::time::{Instant, timeout_at};

use super::confirm::Receipt;
use super::connection::InUse;
use super::envelope::Envelope;
use super::error::is_telling;
use crate::failpoint;

/// A message on its way.
#[derive(Clone, Copy)]
pub(super) struct Parcel<'a> {
    pub(super) envelope: &'a Envelope,
    pub(super) payload: &'a [u8],
}

/// How publishing ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// Every confirm has come: nothing is pending on the channel.
    Complete,
    /// Time ran out, and some confirms may still come.
    TimedOut,
    /// The channel or the connection broke.
    Broken(lapin::Error),
}

/// So many bytes are handed to the driver at a time. Were it given a whole batch, what is left of it when the
/// broker closes the channel would still be sent, and to that the broker answers by closing the connection.
const WINDOW: usize = 32 * 1024;

/// What a message costs besides its payload, roughly.
const OVERHEAD: usize = 1024;

/// Publishes all parcels in their order, without waiting for one before the next, then awaits every confirm.
///
/// There is a receipt for every parcel, whatever the ending.
pub(super) async fn publish(
    channel: &InUse,
    exchange: &ShortString,
    parcels: &[Parcel<'_>],
    deadline: Instant,
) -> (Vec<Receipt>, Ending) {
    let mut confirms = Vec::with_capacity(parcels.len());
    let sending = send(channel, exchange, parcels, &mut confirms);
    let mut trouble = match timeout_at(deadline, sending).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error),
        Err(_) => return (receipts(confirms, parcels.len(), deadline).await.0, Ending::TimedOut),
    };
    failpoint::pass("published");
    let (receipts, error) = receipts(confirms, parcels.len(), deadline).await;
    // The confirms know why the channel was closed; the publish after it knows only that it was.
    if error.is_some() && !trouble.as_ref().is_some_and(is_telling) {
        trouble = error;
    }
    let ending = match trouble {
        Some(error) => Ending::Broken(error),
        None if receipts.contains(&Receipt::None) => Ending::TimedOut,
        None => Ending::Complete,
    };
    (receipts, ending)
}

async fn send(
    channel: &Channel,
    exchange: &ShortString,
    parcels: &[Parcel<'_>],
    confirms: &mut Vec<PublisherConfirm>,
) -> lapin::Result<()> {
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let mut rest = parcels;
    while !rest.is_empty() {
        let (window, later) = rest.split_at(window(rest));
        let mut writes = Vec::with_capacity(window.len());
        for Parcel { envelope, payload } in window {
            let (key, properties) = (envelope.routing_key.clone(), envelope.properties.clone());
            let write = channel.basic_publish(exchange.clone(), key, options, payload, properties);
            let mut write = Box::pin(maybe_done(write));
            // The first poll queues the frames, so the order of these polls is the order on the wire.
            let _ = poll!(write.as_mut());
            writes.push(write);
        }
        for mut write in writes {
            write.as_mut().await;
            if let Some(written) = write.as_mut().take_output() {
                confirms.push(written?);
            }
        }
        rest = later;
    }
    Ok(())
}

/// How many of the parcels are handed over together, at least one.
fn window(parcels: &[Parcel<'_>]) -> usize {
    let mut bytes = 0;
    let fitting = parcels.iter().take_while(|parcel| {
        bytes += parcel.payload.len() + OVERHEAD;
        bytes <= WINDOW
    });
    fitting.count().max(1)
}

/// Awaits every confirm, also after one has failed: each may bring a message that came back.
async fn receipts(
    confirms: Vec<PublisherConfirm>,
    count: usize,
    deadline: Instant,
) -> (Vec<Receipt>, Option<lapin::Error>) {
    let mut receipts = Vec::with_capacity(count);
    let mut trouble: Option<lapin::Error> = None;
    for confirm in confirms {
        let receipt = match timeout_at(deadline, confirm).await {
            Ok(Ok(Confirmation::Ack(returned))) => Receipt::Ack(returned.map(id)),
            Ok(Ok(Confirmation::Nack(returned))) => Receipt::Nack(returned.map(id)),
            // Confirms are always asked for; without them nothing is known.
            Ok(Ok(Confirmation::NotRequested)) | Err(_) => Receipt::None,
            Ok(Err(error)) => {
                if !trouble.as_ref().is_some_and(is_telling) {
                    trouble = Some(error);
                }
                Receipt::None
            }
        };
        receipts.push(receipt);
    }
    receipts.resize(count, Receipt::None);
    (receipts, trouble)
}

fn id(returned: lapin::message::BasicReturnMessage) -> String {
    let id = returned.delivery.properties.message_id();
    id.as_ref().map(|id| id.as_str().to_owned()).unwrap_or_default()
}

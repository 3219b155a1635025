//! Publishes messages on one channel and awaits what the broker answers to each.

use std::collections::VecDeque;
use std::pin::Pin;

use futures_util::future::{BoxFuture, FutureExt, MaybeDone, maybe_done};
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
pub(super) struct Parcel<'a> {
    pub(super) envelope: Envelope,
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

/// No more bytes than these wait in the driver, unless a single message has more. Were it given a whole batch, what is left
/// of it when the broker closes the channel would still be sent, and to that the broker answers by closing the connection.
const WINDOW: usize = 64 * 1024;

/// Publishes all parcels in their order, without waiting for one before the next, then awaits every confirm.
///
/// There is a receipt for every parcel, whatever the ending.
pub(super) async fn publish(
    channel: &InUse,
    exchange: &ShortString,
    parcels: Vec<Parcel<'_>>,
    deadline: Instant,
) -> (Vec<Receipt>, Ending) {
    let mut sent = Sent { receipts: vec![Receipt::None; parcels.len()], ..Sent::default() };
    let mut trouble = match timeout_at(deadline, sent.send(channel, exchange, parcels)).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error),
        Err(_) => {
            sent.receive(deadline).await;
            return (sent.receipts, Ending::TimedOut);
        }
    };
    failpoint::pass("published");
    sent.receive(deadline).await;
    // The confirms know why the channel was closed; the publish after it knows only that it was.
    if sent.trouble.is_some() && !trouble.as_ref().is_some_and(is_telling) {
        trouble = sent.trouble;
    }
    let ending = match trouble {
        Some(error) => Ending::Broken(error),
        None if sent.receipts.contains(&Receipt::None) => Ending::TimedOut,
        None => Ending::Complete,
    };
    (sent.receipts, ending)
}

/// A message that is being written.
type Write<'a> = MaybeDone<BoxFuture<'a, lapin::Result<PublisherConfirm>>>;

/// How far a batch is. Messages are written in their order, so those that are written come before those that are not.
#[derive(Default)]
struct Sent<'a> {
    /// Of every message.
    receipts: Vec<Receipt>,
    /// Of the first ones, whose receipts are to come.
    confirms: Vec<PublisherConfirm>,
    /// Of the next ones, with their bytes.
    writes: VecDeque<(usize, Write<'a>)>,
    trouble: Option<lapin::Error>,
}

impl<'a> Sent<'a> {
    async fn send(
        &mut self,
        channel: &'a Channel,
        exchange: &ShortString,
        parcels: Vec<Parcel<'a>>,
    ) -> lapin::Result<()> {
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let mut parcels = parcels.into_iter().peekable();
        let mut waiting = 0;
        while parcels.peek().is_some() || !self.writes.is_empty() {
            while let Some(parcel) =
                parcels.next_if(|parcel| waiting == 0 || waiting + weight(parcel) <= WINDOW)
            {
                let bytes = weight(&parcel);
                let Envelope { routing_key, properties, .. } = parcel.envelope;
                let write =
                    channel.basic_publish(exchange.clone(), routing_key, options, parcel.payload, properties);
                let mut write = maybe_done(write.boxed());
                // The first poll queues the frames, so the order of these polls is the order on the wire.
                let _ = poll!(&mut write);
                self.writes.push_back((bytes, write));
                waiting += bytes;
            }
            // Until half of them are gone and the next one fits, so that the driver is never idle. The last of that half
            // first: by then the others are written, and need not be waited for one by one.
            let most = parcels.peek().map_or(0, |next| WINDOW.saturating_sub(weight(next)).min(WINDOW / 2));
            let mut leaving = 0;
            while waiting > most && leaving < self.writes.len() {
                waiting -= self.writes[leaving].0;
                leaving += 1;
            }
            if let Some((_, last)) = leaving.checked_sub(1).and_then(|at| self.writes.get_mut(at)) {
                last.await;
            }
            for _ in 0..leaving {
                self.written().await?;
            }
        }
        Ok(())
    }

    /// Takes the confirm of the first write; it stays where it is until it has one.
    async fn written(&mut self) -> lapin::Result<()> {
        if let Some((_, write)) = self.writes.front_mut() {
            (&mut *write).await;
            let confirm = Pin::new(write).take_output();
            self.writes.pop_front();
            self.confirms.extend(confirm.transpose()?);
        }
        Ok(())
    }

    /// Awaits every confirm, also after one has failed: each may bring a message that came back.
    async fn receive(&mut self, deadline: Instant) {
        let mut pending: Vec<usize> = (0..self.confirms.len()).collect();
        let in_time = timeout_at(deadline, async {
            // The last first: the others have mostly come by then, and need not be waited for one by one.
            while let Some(at) = pending.last() {
                let answer = (&mut self.confirms[*at]).await;
                self.receipts[*at] = receipt(answer, &mut self.trouble);
                pending.pop();
            }
        });
        let is_late = in_time.await.is_err();
        if is_late || !self.writes.is_empty() {
            self.receive_what_came(pending);
        }
    }

    /// One that is late keeps nobody from knowing what has come: but the driver goes on meanwhile, and hands a message
    /// that came back to whichever confirm completes next. That one completes before the confirm of the message, so it
    /// has completed when all are looked at once more; then only what came back counts.
    fn receive_what_came(&mut self, mut pending: Vec<usize>) {
        pending.retain(|at| match (&mut self.confirms[*at]).now_or_never() {
            Some(answer) => {
                self.receipts[*at] = receipt(answer, &mut self.trouble);
                false
            }
            None => true,
        });
        for at in pending {
            let answer = (&mut self.confirms[at]).now_or_never();
            self.receipts[at] = came_back(answer.and_then(Result::ok));
        }
        // What was not written when time ran out may have been since.
        for (at, (_, write)) in (self.confirms.len()..).zip(&mut self.writes) {
            let written = write.now_or_never().and_then(|()| Pin::new(write).take_output());
            let confirm = written.and_then(Result::ok);
            let answer = confirm.and_then(FutureExt::now_or_never);
            self.receipts[at] = came_back(answer.and_then(Result::ok));
        }
    }
}

/// About how many bytes a message has on the wire.
fn weight(parcel: &Parcel<'_>) -> usize {
    parcel.envelope.weight + parcel.payload.len()
}

/// A receipt that is trusted only for the message that came along.
fn came_back(answer: Option<Confirmation>) -> Receipt {
    match answer {
        Some(Confirmation::Ack(Some(returned))) => Receipt::Ack(Some(id(returned))),
        Some(Confirmation::Nack(returned)) => Receipt::Nack(returned.map(id)),
        _ => Receipt::None,
    }
}

fn receipt(answer: lapin::Result<Confirmation>, trouble: &mut Option<lapin::Error>) -> Receipt {
    match answer {
        Ok(Confirmation::Ack(returned)) => Receipt::Ack(returned.map(id)),
        Ok(Confirmation::Nack(returned)) => Receipt::Nack(returned.map(id)),
        // Confirms are always asked for; without them nothing is known.
        Ok(Confirmation::NotRequested) => Receipt::None,
        Err(error) => {
            if !trouble.as_ref().is_some_and(is_telling) {
                *trouble = Some(error);
            }
            Receipt::None
        }
    }
}

fn id(returned: lapin::message::BasicReturnMessage) -> String {
    let id = returned.delivery.properties.message_id();
    id.as_ref().map(|id| id.as_str().to_owned()).unwrap_or_default()
}

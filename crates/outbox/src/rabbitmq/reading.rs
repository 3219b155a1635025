//! One look through a queue from its front: what was got and not acknowledged goes back to its place at the end.

use std::collections::BTreeSet;
use std::time::Duration;

use lapin::Channel;
use lapin::options::{BasicAckOptions, BasicGetOptions, BasicNackOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use tokio::time::{Instant, sleep, timeout};

use super::connection::Session;
use super::declare::short;
use super::error::{into_error, publish_fault, told};
use super::letter::Letter;
use crate::error::{Error, ErrorKind, Result};

/// A broker puts back what was got within milliseconds; after this somebody else has taken it.
const BACK: Duration = Duration::from_secs(2);

/// What was got from a queue and not acknowledged.
pub(super) struct Reading<'r> {
    session: &'r Session,
    channel: Channel,
    queue: &'r str,
    limit: Duration,
    /// Got and not acknowledged.
    open: BTreeSet<u64>,
    /// Messages that nobody has got yet, as far as it is known.
    rest: u32,
    /// How often the queue has handed out one of them at most.
    handed_out: u64,
    is_quorum: bool,
}

impl<'r> Reading<'r> {
    /// Begins at the front. A queue that does not exist is an error of kind [`ErrorKind::NotFound`].
    pub(super) async fn open(
        session: &'r Session,
        queue: &'r str,
        is_quorum: bool,
        limit: Duration,
    ) -> Result<Self> {
        let channel = within(limit, queue, session.reading()).await?;
        let (rest, _) = count(&channel, queue, limit).await?;
        Ok(Self { session, channel, queue, limit, open: BTreeSet::new(), rest, handed_out: 0, is_quorum })
    }

    /// The next message, if there is one.
    pub(super) async fn next(&mut self) -> Result<Option<Letter>> {
        let got = self.channel.basic_get(short(self.queue), BasicGetOptions { no_ack: false });
        let Some(got) = within(self.limit, self.queue, got).await? else {
            self.rest = 0;
            return Ok(None);
        };
        self.rest = got.message_count;
        let delivery = got.delivery;
        self.open.insert(delivery.delivery_tag);
        let letter =
            Letter::new(delivery.delivery_tag, delivery.routing_key, delivery.properties, delivery.data);
        if let Some(times) = letter.handed_out() {
            self.is_quorum = true;
            self.handed_out = self.handed_out.max(times);
        }
        Ok(Some(letter))
    }

    /// How many are behind the last one that was got.
    pub(super) fn rest(&self) -> u32 {
        self.rest
    }

    /// How often the queue has handed out one of those that were got at most, this time not counted.
    pub(super) fn handed_out(&self) -> u64 {
        self.handed_out
    }

    /// These are done with, and do not go back.
    pub(super) async fn acknowledge(&mut self, tags: &[u64]) -> Result<()> {
        for tag in tags {
            let acknowledged = self.channel.basic_ack(*tag, BasicAckOptions { multiple: false });
            within(self.limit, self.queue, acknowledged).await?;
            self.open.remove(tag);
        }
        Ok(())
    }

    /// Puts back what was not acknowledged, and returns when it is there again: whoever looks next sees it all.
    ///
    /// A quorum queue puts it at its front or at its end, by its version and by how it is put back. So for the order to
    /// hold all must be got, and be put back one by one.
    pub(super) async fn close(mut self) -> Result<()> {
        while self.is_quorum && !self.open.is_empty() && self.next().await?.is_some() {}
        for tag in &self.open {
            let back = self.channel.basic_nack(*tag, BasicNackOptions { multiple: false, requeue: true });
            within(self.limit, self.queue, back).await?;
        }
        within(self.limit, self.queue, self.channel.close(200, "done".into())).await?;
        if self.open.is_empty() {
            return Ok(());
        }
        let expected = self.rest.saturating_add(u32::try_from(self.open.len()).unwrap_or(u32::MAX));
        let channel = within(self.limit, self.queue, self.session.reading()).await?;
        let end = Instant::now() + BACK;
        loop {
            let (count, consumers) = count(&channel, self.queue, self.limit).await?;
            // A consumer takes them as soon as they are back. A quorum queue takes us ourselves for one.
            let is_shared = consumers > 0 && !self.is_quorum;
            if count >= expected || is_shared || Instant::now() >= end {
                break;
            }
            sleep(Duration::from_millis(5)).await;
        }
        within(self.limit, self.queue, channel.close(200, "done".into())).await
    }
}

/// How many messages are ready in a queue, and how many consumers it has.
pub(super) async fn count(channel: &Channel, queue: &str, limit: Duration) -> Result<(u32, u32)> {
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let asked = channel.queue_declare(short(queue), options, FieldTable::default());
    let declared = within(limit, queue, asked).await?;
    Ok((declared.message_count(), declared.consumer_count()))
}

/// Awaits an answer of the broker about a queue.
async fn within<T>(limit: Duration, queue: &str, asked: impl Future<Output = lapin::Result<T>>) -> Result<T> {
    match timeout(limit, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) if told(&error).is_some_and(|(number, _)| number == 404) => {
            Err(Error::new(ErrorKind::NotFound, format!("there is no queue '{queue}'")))
        }
        Ok(Err(error)) => Err(into_error(&publish_fault(&format!("queue '{queue}'"), &error).into_cause())),
        Err(_) => Err(Error::new(ErrorKind::Timeout, format!("queue '{queue}': the broker does not answer"))),
    }
}

//! A queue of RabbitMQ, read past the proxy.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use tokio_util::sync::CancellationToken;

use crate::secret::SecretUrl;
use crate::verify::ledger::Ledger;
use crate::verify::locked;

/// Acknowledged together, at most so many.
const PREFETCH: u16 = 200;

/// After a broker went away.
const PAUSE: Duration = Duration::from_millis(200);

/// When nothing came for so long after the stop, there is nothing more.
const QUIET: Duration = Duration::from_secs(1);

/// Notes every message until the stop; then what is left.
pub(in crate::verify) async fn record_queue(
    url: SecretUrl,
    queue: String,
    ledger: Arc<Mutex<Ledger>>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    // A broker that was killed is back in a while.
    while let Err(error) = consume(&url, &queue, &ledger, &stop).await {
        if stop.is_cancelled() {
            return Err(error.into());
        }
        tracing::debug!(%error, "the recorder connects anew");
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn consume(
    url: &SecretUrl,
    queue: &str,
    ledger: &Mutex<Ledger>,
    stop: &CancellationToken,
) -> lapin::Result<()> {
    let connection = Connection::connect(url.reveal(), ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
    let mut deliveries = channel.basic_consume(queue.into(), "recorder".into(), options, arguments).await?;
    let all = BasicAckOptions { multiple: true };
    let mut unacknowledged: Option<Delivery> = None;
    loop {
        let is_last = stop.is_cancelled();
        // Acknowledged when nothing more is at hand, so that a burst is acknowledged at once.
        let quiet = if is_last { QUIET } else { Duration::from_millis(20) };
        match tokio::time::timeout(quiet, deliveries.next()).await {
            Ok(Some(delivery)) => {
                let delivery = delivery?;
                note(&delivery, ledger);
                if delivery.delivery_tag % u64::from(PREFETCH / 2) == 0 {
                    delivery.ack(all).await?;
                    unacknowledged = None;
                } else {
                    unacknowledged = Some(delivery);
                }
            }
            Ok(None) => {
                return Err(lapin::ErrorKind::InvalidConnectionState(lapin::ConnectionState::Closed).into());
            }
            Err(_) => {
                if let Some(delivery) = unacknowledged.take() {
                    delivery.ack(all).await?;
                }
                if is_last {
                    return connection.close(200, "done".into()).await;
                }
            }
        }
    }
}

/// What was handed to us before and comes again, since our acknowledgement was lost, is no second message.
fn note(delivery: &Delivery, ledger: &Mutex<Ledger>) {
    let id = delivery.properties.message_id().as_ref().map(ToString::to_string).unwrap_or_default();
    let mut ledger = locked(ledger);
    if !(delivery.redelivered && ledger.has_arrived(&id)) {
        ledger.arrival(&id, &delivery.data);
    }
}

//! Doors to private parts for the fuzz targets; only there with `--cfg fuzzing`.

use std::time::Duration;

use jiff::Timestamp;
use lapin::BasicProperties;
use lapin::types::ShortString;

use super::config::ExchangeConfig;
use super::envelope::Envelope;
use super::letter::{Known, Letter};
use crate::broker::{Picks, Read};
use crate::message::Message;
use crate::sink::{Cause, Outcome, code};

/// A message as it was read: with its destination, and its defect if it has one.
pub type Seen = (Message, String, Option<Cause>);

const QUEUE: &str = "orders";

fn seen(read: Read) -> Seen {
    (read.message, read.destination, read.defect)
}

/// A message that anybody may have sent: as it is read, and as it is read again after a retry queue had it. `attempts` are
/// written on it on the way.
pub fn retried(
    routing_key: &str,
    properties: BasicProperties,
    payload: &[u8],
    picks: &Picks,
    attempts: u32,
) -> Option<[Seen; 2]> {
    let letter = Letter::new(1, ShortString::try_new(routing_key).ok()?, properties, payload.to_vec());
    let _ = (letter.handed_out(), letter.death());
    let once = letter.read(QUEUE, picks, 1_000);
    let (known, now) = (Known::of(&once), Timestamp::UNIX_EPOCH);
    let cause = Cause::new(code::HANDLER, "told to fail");
    let tracks = known.tracks.retried(attempts, &cause, now, Duration::from_secs(1));
    let envelope = letter.envelope(QUEUE, &known, tracks.headers(QUEUE));
    let again = Letter::new(2, envelope.routing_key, envelope.properties, payload.to_vec());
    let twice = again.read(QUEUE, picks, 1_000);
    Some([seen(once), seen(twice)])
}

/// A message of ours, as our own consumer reads it; none if it cannot be sent.
pub fn carried(message: &Message) -> Result<Seen, Outcome> {
    let envelope = Envelope::new(message, &ExchangeConfig::new("events"))?;
    let payload = message.payload.to_vec();
    let letter = Letter::new(1, envelope.routing_key, envelope.properties, payload);
    Ok(seen(letter.read(QUEUE, &Picks::default(), usize::MAX)))
}

//! A file of lines, read as it grows.

use std::io::SeekFrom;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outbox::cloudevents;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::sync::CancellationToken;

use crate::verify::ledger::Ledger;
use crate::verify::locked;

const LOOK: Duration = Duration::from_millis(50);

/// Notes every line until the stop; then what is left.
pub(in crate::verify) async fn record_lines(
    path: PathBuf,
    ledger: Arc<Mutex<Ledger>>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let (mut at, mut rest) = (0, Vec::new());
    loop {
        let is_last = stop.is_cancelled();
        let mut text = std::mem::take(&mut rest);
        at += read_on(&path, at, &mut text).await?;
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        rest = text.split_off(end);
        note(&text, &ledger);
        if is_last {
            return Ok(());
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Reads what is in the file beyond a place; tells how much.
async fn read_on(path: &PathBuf, at: u64, into: &mut Vec<u8>) -> anyhow::Result<u64> {
    let mut file = match File::open(path).await {
        Ok(file) => file,
        // Nothing has arrived yet.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error.into()),
    };
    file.seek(SeekFrom::Start(at)).await?;
    Ok(file.read_to_end(into).await? as u64)
}

/// A line that cannot be read was cut off by a kill: its messages come again.
fn note(lines: &[u8], ledger: &Mutex<Ledger>) {
    for line in lines.split(|byte| *byte == b'\n') {
        if let Ok((message, _)) = cloudevents::parse(line) {
            locked(ledger).arrival(message.id.as_str(), &message.payload);
        }
    }
}

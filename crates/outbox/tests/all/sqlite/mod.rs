//! SQLite, on real files in a temporary folder.

mod chaos;
mod conformance;
mod crowd;
mod inbox;
mod log;
mod plain;

use outbox::sqlite::Outbox;
use outbox::{Cause, Claim, Message, MessageId, Source, Verdict, code};
use tempfile::TempDir;

/// A migrated outbox in a file of its own; the folder goes with it.
pub(crate) struct Fresh {
    pub(crate) outbox: Outbox,
    pub(crate) url: String,
    _folder: TempDir,
}

impl Fresh {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("test.db").display());
        let outbox = Outbox::connect(&url).await.unwrap();
        outbox.migrate().await.unwrap();
        Self { outbox, url, _folder: folder }
    }

    /// Ends the lease on the cursor, as time would.
    pub(crate) async fn expire_lease(&self, cursor: &str) {
        let sql = "UPDATE outbox_cursors SET lease_until = 0 WHERE name = ?";
        sqlx::query(sql).bind(cursor).execute(self.outbox.pool()).await.unwrap();
    }

    /// Writes messages `numbers` of `key` and commits.
    pub(crate) async fn write(&self, key: &str, numbers: std::ops::Range<u32>) -> Vec<MessageId> {
        let messages: Vec<Message> =
            numbers.map(|number| Message::new("test.written", format!("{key}{number}")).key(key)).collect();
        let mut tx = self.outbox.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
        self.outbox.enqueue_all(&mut tx, &messages).await.unwrap();
        tx.commit().await.unwrap();
        messages.into_iter().map(|message| message.id).collect()
    }
}

/// The payloads of a claim, as text.
pub(crate) fn payloads(claim: &Claim) -> Vec<String> {
    claim.messages.iter().map(|message| String::from_utf8_lossy(&message.payload).into_owned()).collect()
}

/// Claims until nothing comes and settles all as done; tells the payloads.
pub(crate) async fn drain(source: &impl Source) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let claim = source.claim(100).await.unwrap();
        if claim.messages.is_empty() {
            return all;
        }
        all.extend(payloads(&claim));
        source.settle(&claim, &vec![Verdict::Done; claim.messages.len()]).await.unwrap();
    }
}

pub(crate) fn dead(holds: bool) -> Verdict {
    Verdict::Dead { attempts: 1, cause: Cause::new(code::REFUSED, "no"), holds }
}

pub(crate) fn retry(ms: u64) -> Verdict {
    Verdict::Retry {
        after: std::time::Duration::from_millis(ms),
        attempts: 1,
        cause: Cause::new(code::REFUSED, "not\u{0}now"),
    }
}

//! Another payload for a message that failed; the first one is kept.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outbox::errors::ErrorRecord;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::desk::{Desk, desks};
use super::no_such;
use crate::ops::{Office, Tally, check_id, written_down};
use crate::trouble::Trouble;

/// Which error gets which payload.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ErrorEditRequest)]
pub struct EditRequest {
    /// The error's own id, or that of the message.
    pub id: String,
    /// Only in the table of this sink.
    pub sink: Option<String>,
    /// The new payload, if it is text.
    pub payload: Option<String>,
    /// The new payload as base64, if it is not.
    pub payload_base64: Option<String>,
    /// Only tells whether it can be done.
    #[serde(default)]
    pub dry_run: bool,
}

impl EditRequest {
    fn bytes(&self) -> Result<Vec<u8>, Trouble> {
        let help = "give one of payload and payload_base64";
        match (&self.payload, &self.payload_base64) {
            (Some(text), None) => Ok(text.clone().into_bytes()),
            (None, Some(text)) => STANDARD
                .decode(text)
                .map_err(|error| Trouble::usage(format!("payload_base64 is no base64: {error}"), help)),
            (None, None) => Err(Trouble::usage("there is no new payload", help)),
            (Some(_), Some(_)) => Err(Trouble::usage("there are two new payloads", help)),
        }
    }
}

/// What became of an edit.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ErrorEdited)]
pub struct Edited {
    /// What was to be done.
    pub verb: &'static str,
    /// The error's own id.
    pub id: String,
    /// 1 if its payload was changed; 0 if it was only looked, or had that payload already.
    pub changed: u64,
}

/// The one error that is meant.
pub struct TheOne<'o> {
    office: &'o Office,
    desk: Desk<'o>,
    /// The error.
    pub record: ErrorRecord,
}

/// Changes the payload of one error.
pub async fn edit(office: &Office, request: EditRequest, by: &str) -> Result<Edited, Trouble> {
    let payload = request.bytes()?;
    let one = TheOne::find(office, request.sink.as_deref(), &request.id).await?;
    one.check(&payload)?;
    if request.dry_run { Ok(one.unchanged()) } else { one.edit(&payload, by).await }
}

impl<'o> TheOne<'o> {
    /// Finds it; a message that failed in several places is none.
    pub async fn find(office: &'o Office, sink: Option<&str>, id: &str) -> Result<Self, Trouble> {
        check_id(id)?;
        let mut found = Vec::new();
        for desk in desks(office, sink).await? {
            let records = desk.find(id).await?;
            let of = |record| Self { office, desk: desk.clone(), record };
            found.extend(records.into_iter().map(of));
        }
        if found.len() > 1 {
            let ids: Vec<&str> = found.iter().map(|one| one.record.id.as_str()).collect();
            let what = format!("message '{id}' failed in several places");
            return Err(Trouble::usage(what, format!("name one error by its own id: {}", ids.join(", "))));
        }
        found.pop().ok_or_else(|| no_such(id))
    }

    /// Whether this can be its payload: what claims to be JSON, or was so far, has to be JSON.
    pub fn check(&self, payload: &[u8]) -> Result<(), Trouble> {
        let record = &self.record;
        let is_json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).is_ok();
        let claims = record.content_type.contains("json")
            || (record.content_type.is_empty() && is_json(&record.payload));
        if !claims || is_json(payload) {
            return Ok(());
        }
        let at = serde_json::from_slice::<Value>(payload).err();
        let at = at
            .map(|error| format!(" (line {}, column {})", error.line(), error.column()))
            .unwrap_or_default();
        let what = format!("the new payload is no JSON{at}");
        Err(Trouble::usage(what, "the message says that it is JSON; nothing was changed"))
    }

    /// What is told of an edit that was not done.
    pub fn unchanged(&self) -> Edited {
        Edited { verb: "errors edit", id: self.record.id.clone(), changed: 0 }
    }

    /// Changes it, written down before and after.
    pub async fn edit(&self, payload: &[u8], by: &str) -> Result<Edited, Trouble> {
        let (record, desk) = (&self.record, &self.desk);
        if record.payload == payload {
            return Ok(self.unchanged());
        }
        let book = self.office.book(by).await?;
        let detail =
            json!({ "error": record.id, "bytes_before": record.payload.len(), "bytes": payload.len() });
        let (ids, name, tally) = ([record.message_id.clone()], desk.name(), Tally::default());
        let act = async {
            let edited = desk.log.edit(&record.id, payload).await;
            edited.map_err(|error| desk.trouble("cannot change the payload", &error))?;
            tally.add(1);
            Ok(())
        };
        let changed = written_down(Some(&book), ("errors.edit", &name, &ids, detail), &tally, act).await?;
        Ok(Edited { changed, ..self.unchanged() })
    }
}

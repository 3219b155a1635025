//! Removes what every pipe has done, in small steps.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::repair::{Changed, book, target};
use super::{Office, Opened, Tally, written_down};
use crate::quantity::{parse_duration, show_duration};
use crate::trouble::Trouble;

/// Small enough that nobody waits for it, large enough to get on.
const STEP: u32 = 1_000;

/// Where counting stops, in each source.
const COUNTED: u32 = 10_000;

/// What to remove.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PurgeRequest {
    /// Only what is older, as in `30d`.
    pub older_than: String,
    /// Only tells how many would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

/// Removes what is old and done, of a source or of all; with `dry_run` only tells how much that is. `tell` hears of
/// every step.
pub async fn purge(
    office: &Office,
    source: Option<&str>,
    request: &PurgeRequest,
    by: &str,
    tell: &(dyn Fn(u64) + Sync),
) -> Result<Changed, Trouble> {
    let older_than = parse_duration(&request.older_than)
        .map_err(|rule| Trouble::usage(format!("older_than: {rule}"), "write it as in 30d"))?;
    let preview = async {
        let opened = office.open_all(source).await?;
        let counted = count(&opened, older_than).await?;
        Ok((opened, counted))
    };
    let (opened, (matched, at_least)) = office.look("cannot purge", preview).await?;
    if request.dry_run || matched == 0 {
        return Ok(Changed { verb: "purge", matched, at_least, changed: 0, remark: None });
    }
    let (book, remark) = book(office, by).await?;
    let detail = json!({ "older_than": show_duration(older_than), "matched": matched });
    let tally = Tally::default();
    let act = remove(&opened, older_than, &tally, tell);
    let about = ("purge", &*target(&opened), &[][..], detail);
    let changed = written_down(book.as_ref(), about, &tally, act).await?;
    Ok(Changed { verb: "purge", matched, at_least, changed, remark })
}

/// How many, and whether there may be more.
async fn count(opened: &[Opened<'_>], older_than: Duration) -> Result<(u64, bool), Trouble> {
    let (mut matched, mut at_least) = (0, false);
    for source in opened {
        let counted = source.log.admin().purge(older_than, COUNTED, true).await;
        let counted = counted.map_err(|error| source.trouble("cannot purge", &error))?;
        matched += counted;
        at_least |= counted >= u64::from(COUNTED);
    }
    Ok((matched, at_least))
}

async fn remove(
    opened: &[Opened<'_>],
    older_than: Duration,
    tally: &Tally,
    tell: &(dyn Fn(u64) + Sync),
) -> Result<(), Trouble> {
    for source in opened {
        loop {
            let step = source.log.admin().purge(older_than, STEP, false).await;
            let step = step.map_err(|error| source.trouble("cannot purge", &error))?;
            tally.add(step);
            tell(tally.count());
            if step < u64::from(STEP) {
                break;
            }
        }
    }
    Ok(())
}

//! What to do with messages that are set aside.

use outbox::MessageId;
use outbox::admin::{Filter, PREVIEWED_AT_MOST, Repair, Stand};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::messages::check_pipe;
use super::{Book, Office, Opened, Selection, Tally, asked, written_down};
use crate::trouble::Trouble;

/// So many ids may be named at a time.
const MOST: usize = 10_000;

/// Which messages to retry or to skip: without ids and state, the dead ones.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepairRequest {
    /// Only in this source.
    pub source: Option<String>,
    /// Which messages, as in `type:order.* code:NO_ROUTE`.
    pub filter: Option<String>,
    /// These messages.
    #[serde(default, deserialize_with = "asked::ids")]
    #[schema(min_items = 1, max_items = 10_000)]
    pub ids: Vec<String>,
    /// All are meant: for whoever neither names ids nor says which.
    #[serde(default)]
    pub all: bool,
    /// Only tells how many are meant.
    #[serde(default)]
    pub dry_run: bool,
}

impl RepairRequest {
    /// Whether somebody says which messages are meant, or that it is all of them.
    pub fn is_meant(&self) -> Result<(), Trouble> {
        let is_filtered = self.filter.as_ref().is_some_and(|filter| !filter.trim().is_empty());
        let says_which = [self.dry_run, !self.ids.is_empty(), self.source.is_some(), is_filtered];
        asked::not_all_by_mistake(self.all, &says_which)
    }
}

/// What became of something that was to be done.
#[derive(Debug, Serialize, ToSchema)]
pub struct Changed {
    /// What was to be done.
    pub verb: &'static str,
    /// How many messages were meant.
    pub matched: u64,
    /// There may be more, because counting stopped there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// How many were changed.
    pub changed: u64,
    /// What else somebody should know.
    #[serde(skip)]
    pub remark: Option<String>,
}

/// Retries or skips what matches; with `dry_run` only tells how many.
pub async fn repair(
    office: &Office,
    deed: Repair,
    request: &RepairRequest,
    by: &str,
) -> Result<Changed, Trouble> {
    let selection = Selection::parse(request.filter.as_deref().unwrap_or_default())?;
    let filters = filters(&selection, &request.ids)?;
    let verb = match deed {
        Repair::Retry => "retry",
        Repair::Skip => "skip",
    };
    let preview = async {
        let opened = office.open_all(request.source.as_deref()).await?;
        check_pipe(office, selection.pipe.as_deref(), &opened).await?;
        let matched = Tally::default();
        let at_least = each(&opened, &filters, (deed, verb), true, &matched).await?;
        Ok((opened, matched.count(), at_least))
    };
    let (opened, matched, at_least) = office.look(&format!("cannot {verb}"), preview).await?;
    if request.dry_run || matched == 0 {
        return Ok(Changed { verb, matched, at_least, changed: 0, remark: None });
    }
    let (book, remark) = book(office, by).await?;
    let mut ids: Vec<MessageId> = request.ids.iter().map(|id| id.as_str().into()).collect();
    // What is skipped leaves no trace of its own: the book has which they were.
    if ids.is_empty() && deed == Repair::Skip && book.is_some() {
        ids = named(&opened, &filters).await?;
    }
    let selected = selection.to_json(request.source.as_deref());
    let about = (verb, &*target(&opened), &ids[..], json!({ "matched": matched, "selection": selected }));
    let changed = Tally::default();
    let act = async { each(&opened, &filters, (deed, verb), false, &changed).await.map(drop) };
    let changed = written_down(book.as_ref(), about, &changed, act).await?;
    Ok(Changed { verb, matched, at_least, changed, remark })
}

/// The ids of what matches; of very many the first.
async fn named(opened: &[Opened<'_>], filters: &[Filter]) -> Result<Vec<MessageId>, Trouble> {
    let mut ids = Vec::new();
    for source in opened {
        for filter in filters {
            let filter = Filter { limit: u32::try_from(MOST - ids.len()).unwrap_or(0), ..filter.clone() };
            if filter.limit == 0 {
                return Ok(ids);
            }
            let found = source.log.admin().list(&filter).await;
            let found = found.map_err(|error| source.trouble("cannot list what is to be skipped", &error))?;
            ids.extend(found.into_iter().filter(|entry| is_set_aside(entry.stand)).map(|entry| entry.id));
        }
    }
    Ok(ids)
}

fn is_set_aside(stand: Stand) -> bool {
    matches!(stand, Stand::Waiting | Stand::Behind | Stand::Dead)
}

/// Tells whether there may be more than was counted.
async fn each(
    opened: &[Opened<'_>],
    filters: &[Filter],
    (deed, verb): (Repair, &str),
    dry_run: bool,
    tally: &Tally,
) -> Result<bool, Trouble> {
    let mut at_least = false;
    for source in opened {
        for filter in filters {
            let repaired = source.log.admin().repair(filter, deed, dry_run).await;
            let repaired = repaired.map_err(|error| source.trouble(&format!("cannot {verb}"), &error))?;
            at_least |= dry_run && repaired >= PREVIEWED_AT_MOST;
            tally.add(repaired);
        }
    }
    Ok(at_least)
}

/// The book for what is done to outboxes, or a remark that there is none.
pub(super) async fn book(office: &Office, by: &str) -> Result<(Option<Book>, Option<String>), Trouble> {
    Ok(match Book::open_if_there(office, by).await? {
        Ok(book) => (Some(book), None),
        Err(remark) => (None, Some(remark)),
    })
}

pub(super) fn target(opened: &[Opened<'_>]) -> String {
    opened.iter().map(|source| source.source.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// One filter per id, or one for all. Without ids and state only the dead are meant: those wait for a person,
/// the others will go on by themselves.
fn filters(selection: &Selection, ids: &[String]) -> Result<Vec<Filter>, Trouble> {
    if ids.len() > MOST {
        return Err(Trouble::usage(
            format!("{} ids are too many", ids.len()),
            format!("name at most {MOST}"),
        ));
    }
    if ids.is_empty() {
        let mut filter = selection.filter();
        if filter.id.is_none() {
            filter.stand = filter.stand.or(Some(Stand::Dead));
        }
        return Ok(vec![filter]);
    }
    let one = |id: &String| {
        super::check_id(id)?;
        let this = Selection { id: Some(id.clone()), ..Selection::default() };
        let both = selection.clone().and(this);
        Ok(both.map_err(|(what, help)| Trouble::usage(what, help))?.filter())
    };
    ids.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters_of(filter: &str, ids: &[&str]) -> Result<Vec<Filter>, Trouble> {
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        filters(&Selection::parse(filter)?, &ids)
    }

    #[test]
    fn without_ids_and_state_the_dead_are_meant() {
        let stand = |filter: &str| filters_of(filter, &[]).expect(filter)[0].stand;
        assert_eq!(stand(""), Some(Stand::Dead));
        assert_eq!(stand("state:waiting"), Some(Stand::Waiting));
        assert_eq!(stand("id:a"), None);
        let named = filters_of("type:x", &["a", "b"]).expect("it is a filter");
        assert_eq!(named.len(), 2);
        assert!(named.iter().all(|one| one.stand.is_none() && one.kind.as_deref() == Some("x")));
    }

    #[test]
    fn an_id_that_contradicts_the_filter_is_refused() {
        assert!(filters_of("id:a", &["a"]).is_ok());
        let told = filters_of("id:a", &["b"]).expect_err("they differ").to_string();
        assert_eq!(told, "'id' cannot be both 'a' and 'b'");
        assert!(filters_of("", &["a\0"]).is_err());
    }
}

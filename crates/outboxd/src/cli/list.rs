//! `list`: messages that match, and what `retry` and `skip` share with it.

use super::args::{ListArgs, Selection};
use super::output::Output;
use crate::ops::messages::{self, ListRequest, Listed};
use crate::ops::{self, Office};
use crate::trouble::{Exit, Trouble};

impl Selection {
    /// What the flags and the filter say together, as a filter.
    pub fn filter(&self) -> Result<ops::Selection, Trouble> {
        let flags = ops::Selection {
            kind: self.kind.clone(),
            key: self.key.clone(),
            id: None,
            pipe: self.pipe.clone(),
            state: self.state.map(Into::into),
            code: self.code.clone(),
            header: self.header.clone(),
        };
        let filter = ops::Selection::parse(self.filter.as_deref().unwrap_or_default())?;
        both(flags, filter)
    }
}

fn both(flags: ops::Selection, filter: ops::Selection) -> Result<ops::Selection, Trouble> {
    flags.and(filter).map_err(|(what, help)| Trouble::usage(format!("{what}, by flag and by --filter"), help))
}

/// Lists messages, oldest first.
pub async fn list(args: &ListArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let id = ops::Selection { id: args.id.clone(), ..ops::Selection::default() };
    let request = ListRequest {
        source: args.selection.source.clone(),
        filter: Some(both(id, args.selection.filter()?)?.to_string()),
        after: args.after,
        limit: Some(args.limit),
        newest_first: args.newest_first,
    };
    let listing = messages::list(office, &request).await?;
    if output.is_json() {
        output.json(&listing)?;
        return Ok(Exit::Ok);
    }
    if listing.messages.is_empty() {
        output.note("no message matches");
        return Ok(Exit::Ok);
    }
    let header = ["position", "id", "type", "key", "pipe", "state", "attempts", "occurred", "cause"];
    output.table(&header, &listing.messages.iter().map(to_cells).collect::<Vec<_>>())?;
    if let Some(next) = listing.next {
        output.note(format_args!("there are more: --after {next}"));
    }
    Ok(Exit::Ok)
}

fn to_cells(entry: &Listed) -> Vec<String> {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    vec![
        entry.position.to_string(),
        entry.id.clone(),
        entry.kind.clone(),
        or_dash(&entry.key),
        or_dash(&entry.pipe),
        entry.state.to_owned(),
        entry.attempts.to_string(),
        format!("{:.0}", entry.occurred_at),
        entry.cause.as_ref().map_or("-".to_owned(), |cause| shorten(&cause.to_string())),
    ]
}

/// The whole cause is in `show`; a table must fit a screen.
pub fn shorten(text: &str) -> String {
    const MOST: usize = 80;
    if text.chars().count() <= MOST {
        text.to_owned()
    } else {
        text.chars().take(MOST - 1).chain(['…']).collect()
    }
}

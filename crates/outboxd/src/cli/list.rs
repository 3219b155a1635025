//! `list`: messages that match, and the filter that `retry` and `skip` share with it.

use outbox::admin::{Entry, Filter, Stand};
use serde_json::{Value, json};

use super::args::{ListArgs, Selection};
use super::output::Output;
use crate::mistake::did_you_mean;
use crate::ops::told::without_nulls;
use crate::ops::{Office, Opened};
use crate::plan::Plan;
use crate::trouble::{Exit, Trouble};

impl Selection {
    /// The filter of the library.
    pub fn filter(&self) -> Filter {
        Filter {
            cursor: self.pipe.clone(),
            stand: self.state.map(Into::into),
            kind: self.kind.clone(),
            key: self.key.clone(),
            code: self.code.clone(),
            header: self.header.clone(),
            ..Filter::default()
        }
    }

    /// The flags that were set, for the record.
    pub fn to_json(&self) -> Value {
        let all = json!({
            "source": self.source,
            "pipe": self.pipe,
            "state": self.state.map(|state| Stand::from(state).as_str()),
            "type": self.kind,
            "key": self.key,
            "code": self.code,
            "header": self.header,
        });
        without_nulls(all)
    }
}

/// A pipe that neither the configuration nor a log knows is a slip of the pen, not an empty result.
pub async fn check_pipe(name: Option<&str>, plan: &Plan, opened: &[Opened<'_>]) -> Result<(), Trouble> {
    let Some(name) = name else { return Ok(()) };
    if plan.pipes.contains_key(name) {
        return Ok(());
    }
    let mut known: Vec<String> = plan.pipes.keys().cloned().collect();
    for source in opened {
        let cursors = source.log.admin().status().await;
        let cursors = cursors.map_err(|error| source.trouble("cannot read the status", &error))?;
        known.extend(cursors.into_iter().map(|cursor| cursor.cursor));
    }
    if known.iter().any(|pipe| pipe == name) {
        return Ok(());
    }
    Err(Trouble::usage(
        format!("there is no pipe '{name}'"),
        did_you_mean(name, known.iter().map(String::as_str)),
    ))
}

/// Lists messages, oldest first.
pub async fn list(args: &ListArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let opened = office.open_all(args.selection.source.as_deref()).await?;
    if args.after.is_some() && opened.len() > 1 {
        return Err(Trouble::usage("--after is a position in one source", "choose it with --source").into());
    }
    check_pipe(args.selection.pipe.as_deref(), &office.plan, &opened).await?;
    let mut filter = args.selection.filter();
    filter.id = args.id.as_deref().map(Into::into);
    filter.after = args.after;
    filter.limit = args.limit;
    let mut found = Vec::new();
    for source in &opened {
        let entries = source.log.admin().list(&filter).await;
        let entries = entries.map_err(|error| source.trouble("cannot list", &error))?;
        found.extend(entries.into_iter().map(|entry| (source.source.name.clone(), entry)));
    }
    let next = match (&opened[..], found.last()) {
        ([source], Some((_, last))) => next_page(source, &filter, last.position).await?,
        _ => None,
    };
    if output.is_json() {
        let messages: Vec<Value> = found.iter().map(|(source, entry)| to_json(source, entry)).collect();
        output.json(&json!({ "messages": messages, "next": next }))?;
        return Ok(Exit::Ok);
    }
    if found.is_empty() {
        output.note("no message matches");
        return Ok(Exit::Ok);
    }
    let header = ["position", "id", "type", "key", "pipe", "state", "attempts", "occurred", "cause"];
    output.table(&header, &found.iter().map(|(_, entry)| to_cells(entry)).collect::<Vec<_>>())?;
    if let Some(next) = next {
        output.note(format_args!("there are more: --after {next}"));
    }
    Ok(Exit::Ok)
}

/// Where the next page begins, if there is one. A full page does not tell: it ends with a whole message.
async fn next_page(source: &Opened<'_>, filter: &Filter, last: u64) -> Result<Option<u64>, Trouble> {
    let rest = Filter { after: Some(last), limit: 1, ..filter.clone() };
    let rest = source.log.admin().list(&rest).await;
    let rest = rest.map_err(|error| source.trouble("cannot list", &error))?;
    Ok((!rest.is_empty()).then_some(last))
}

/// An entry for scripts; a cursor is called by the name of its pipe everywhere outside of the library.
pub fn to_json(source: &str, entry: &Entry) -> Value {
    json!({
        "source": source,
        "position": entry.position,
        "id": entry.id,
        "type": entry.kind,
        "key": entry.key,
        "occurred_at": entry.occurred_at,
        "pipe": entry.cursor,
        "state": entry.stand,
        "attempts": entry.attempts,
        "due": entry.due,
        "cause": entry.cause,
    })
}

fn to_cells(entry: &Entry) -> Vec<String> {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    vec![
        entry.position.to_string(),
        entry.id.to_string(),
        entry.kind.clone(),
        or_dash(&entry.key),
        or_dash(&entry.cursor),
        entry.stand.as_str().to_owned(),
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

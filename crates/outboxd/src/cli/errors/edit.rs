//! `errors edit`: another payload for a message that failed; the first one is kept.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use outbox::errors::ErrorRecord;
use serde_json::{Value, json};

use super::args::ErrorsEditArgs;
use super::desk::desks;
use super::show::no_such;
use crate::backends::Databases;
use crate::cli::consent::{Answer, ask};
use crate::cli::output::Output;
use crate::ops::{Book, Tally, written_down};
use crate::plan::Plan;
use crate::trouble::{Exit, Trouble};

/// Changes the payload of one error.
pub async fn edit(args: &ErrorsEditArgs, plan: &Plan, output: &mut Output) -> anyhow::Result<Exit> {
    let mut found = Vec::new();
    for desk in desks(plan, args.sink.as_deref()).await? {
        let records = desk.find(&args.id).await;
        let records = records.map_err(|error| desk.trouble("cannot read the error table", &error))?;
        found.extend(records.into_iter().map(|record| (desk.sink, record)));
        if let [(_, record)] = &found[..] {
            let payload = new_payload(args, record, output)?;
            check(record, &payload)?;
            let is_same = payload == record.payload;
            let deed = format!("change the payload of error {} to {} bytes", record.id, payload.len());
            let answer = ask(&deed, u64::from(!is_same), args.consent, output)?;
            if answer == Answer::Yes {
                let book = Book::open(plan, &Databases::default(), &args.by.name()).await?;
                let detail = json!({ "error": record.id, "bytes_before": record.payload.len(), "bytes": payload.len() });
                let tally = Tally::default();
                let act = async {
                    let edited = desk.log.edit(&record.id, &payload).await;
                    edited.map_err(|error| desk.trouble("cannot change the payload", &error))?;
                    tally.add(1);
                    Ok(())
                };
                let ids = [record.message_id.clone()];
                written_down(Some(&book), ("errors.edit", &desk.name(), &ids, detail), &tally, act).await?;
            }
            let changed = u64::from(answer == Answer::Yes);
            if output.is_json() {
                output.json(&json!({ "verb": "errors edit", "id": record.id, "changed": changed }))?;
            } else if changed > 0 {
                output.line(format_args!(
                    "{} edited; send it back with `outboxd errors retry {0}`",
                    record.id
                ))?;
            } else {
                output.line("nothing was changed")?;
            }
            return Ok(Exit::Ok);
        }
    }
    if found.is_empty() {
        return Err(no_such(&args.id).into());
    }
    let ids: Vec<&str> = found.iter().map(|(_, record)| record.id.as_str()).collect();
    let what = format!("message '{}' failed in several places", args.id);
    Err(Trouble::usage(what, format!("name one error by its own id: {}", ids.join(", "))).into())
}

fn new_payload(args: &ErrorsEditArgs, record: &ErrorRecord, output: &Output) -> anyhow::Result<Vec<u8>> {
    if let Some(text) = &args.payload {
        return Ok(text.clone().into_bytes());
    }
    if let Some(path) = &args.file {
        return std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    }
    if !output.is_interactive() {
        let help = "give it with --payload TEXT or --file PATH";
        return Err(Trouble::usage("there is no terminal to edit the payload on", help).into());
    }
    in_editor(&record.payload)
}

/// Opens the payload in the editor of the person, in a file that nobody else can read.
fn in_editor(payload: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut file = tempfile::Builder::new().prefix("outboxd-").suffix(".payload").tempfile()?;
    file.write_all(payload)?;
    file.flush()?;
    run_editor(file.path())?;
    std::fs::read(file.path()).context("cannot read the payload again")
}

fn run_editor(path: &Path) -> anyhow::Result<()> {
    let editor = ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok());
    let editor = editor.filter(|editor| !editor.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let ended = Command::new(program).args(words).arg(path).status();
    let ended = ended.with_context(|| format!("cannot start the editor '{program}'"))?;
    if ended.success() {
        return Ok(());
    }
    Err(Trouble::new(Exit::Failed, "the editor was left with an error; nothing was changed", "").into())
}

/// What claims to be JSON, or was so far, has to be JSON.
fn check(record: &ErrorRecord, payload: &[u8]) -> Result<(), Trouble> {
    let is_json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).is_ok();
    let claims =
        record.content_type.contains("json") || (record.content_type.is_empty() && is_json(&record.payload));
    if !claims || is_json(payload) {
        return Ok(());
    }
    let at = serde_json::from_slice::<Value>(payload).err();
    let at =
        at.map(|error| format!(" (line {}, column {})", error.line(), error.column())).unwrap_or_default();
    let what = format!("the new payload is no JSON{at}");
    Err(Trouble::usage(what, "the message says that it is JSON; nothing was changed"))
}

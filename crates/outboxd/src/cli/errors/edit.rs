//! `errors edit`: another payload for a message that failed; the first one is kept.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use outbox::errors::ErrorRecord;

use super::args::ErrorsEditArgs;
use crate::cli::consent::{Answer, ask};
use crate::cli::output::Output;
use crate::ops::Office;
use crate::ops::errors::TheOne;
use crate::trouble::{Exit, Trouble};

/// Changes the payload of one error.
pub async fn edit(args: &ErrorsEditArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let one = TheOne::find(office, args.sink.as_deref(), &args.id).await?;
    let record = &one.record;
    let payload = new_payload(args, record, output)?;
    one.check(&payload)?;
    let deed = format!("change the payload of error {} to {} bytes", record.id, payload.len());
    let answer = ask(&deed, u64::from(payload != record.payload), args.consent, output)?;
    let edited = match answer {
        Answer::Yes => one.edit(&payload, &args.by.name()).await?,
        Answer::No => one.unchanged(),
    };
    if output.is_json() {
        output.json(&edited)?;
    } else if edited.changed > 0 {
        output.line(format_args!("{} edited; send it back with `outboxd errors retry {0}`", edited.id))?;
    } else {
        output.line("nothing was changed")?;
    }
    Ok(Exit::Ok)
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

//! `send`: writes a message, for trying things out and for scripts.

use std::io::{IsTerminal, Read};

use anyhow::Context;
use outbox::Message;
use serde_json::json;

use super::args::SendArgs;
use super::output::Output;
use crate::ops::{Office, choose_one, log_options};
use crate::trouble::Exit;

/// Writes one message in a transaction of its own.
pub async fn send(args: &SendArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let source = choose_one(&office.plan, args.source.as_deref())?;
    let help = "insert a row as the application does, or choose a log with --source";
    let limit = log_options(source, "its application writes to it", help)?.limits.payload;
    let payload = match (&args.data, &args.file) {
        (Some(data), _) => data.clone().into_bytes(),
        (None, Some(path)) => {
            let file =
                std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            read(file, limit).with_context(|| format!("cannot read {}", path.display()))?
        }
        (None, None) => {
            if std::io::stdin().is_terminal() {
                output.note("reading the payload from the terminal; end it with Ctrl-D");
            }
            read(std::io::stdin().lock(), limit).context("cannot read standard input")?
        }
    };
    let mut message = Message::new(&args.kind, payload).content_type(&args.content_type);
    message.key = args.key.clone();
    message.headers.extend(args.headers.iter().cloned());
    let opened = office.open(source).await?;
    let id = opened.log.enqueue(message).await.map_err(|error| opened.trouble("cannot send", &error))?;
    if output.is_json() {
        output.json(&json!({ "source": source.name, "id": id }))?;
    } else {
        output.line(id)?;
    }
    Ok(Exit::Ok)
}

/// No more than one byte over the limit: enough to be refused, whatever is at the other end.
fn read(from: impl Read, limit: usize) -> std::io::Result<Vec<u8>> {
    let mut payload = Vec::new();
    from.take(limit as u64 + 1).read_to_end(&mut payload)?;
    Ok(payload)
}

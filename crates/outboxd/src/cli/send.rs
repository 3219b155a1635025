//! `send`: writes a message, for trying things out and for scripts.

use std::io::{IsTerminal, Read};

use anyhow::Context;
use outbox::Message;

use super::args::SendArgs;
use super::output::Output;
use crate::ops::Office;
use crate::ops::send::{self, log_to_send};
use crate::trouble::Exit;

/// Writes one message in a transaction of its own.
pub async fn send(args: &SendArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let (source, limit) = log_to_send(office, args.source.as_deref())?;
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
    let sent = send::send(office, Some(&source.name), message).await?;
    if output.is_json() {
        output.json(&sent)?;
    } else {
        output.line(sent.id)?;
    }
    Ok(Exit::Ok)
}

/// No more than one byte over the limit: enough to be refused, whatever is at the other end.
fn read(from: impl Read, limit: usize) -> std::io::Result<Vec<u8>> {
    let mut payload = Vec::new();
    from.take(limit as u64 + 1).read_to_end(&mut payload)?;
    Ok(payload)
}

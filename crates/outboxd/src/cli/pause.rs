//! `pause` and `resume`: pipes stand still, or go on, wherever they run.

use std::io;

use serde_json::json;

use super::args::{PauseArgs, ResumeArgs};
use super::output::Output;
use crate::ops::pause::{PauseAnswer, PauseShown, PausedPipe};
use crate::ops::{self, Office};
use crate::trouble::Exit;

/// Pauses pipes.
pub async fn pause(args: &PauseArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let answers = ops::pause::pause(office, &args.pipes, args.note.as_deref(), &args.by.name()).await?;
    tell(&answers, output)
}

/// Lets pipes go on.
pub async fn resume(args: &ResumeArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let answers = ops::pause::resume(office, &args.pipes, &args.by.name()).await?;
    tell(&answers, output)
}

fn tell(answers: &[PauseAnswer], output: &mut Output) -> anyhow::Result<Exit> {
    if output.is_json() {
        output.json(&json!({ "pipes": answers }))?;
    } else {
        for answer in answers {
            output.line(words(answer))?;
        }
    }
    Ok(Exit::Ok)
}

fn words(answer: &PauseAnswer) -> String {
    let pipe = &answer.pipe;
    let who = answer.pause.as_ref().map(by_whom).unwrap_or_default();
    match (answer.paused, answer.changed) {
        (true, true) => format!("{pipe} is paused; `outboxd resume {pipe}` lets it go on"),
        (true, false) => format!("{pipe} was paused already, {who}"),
        (false, true) => format!("{pipe} goes on; it was paused {who}"),
        (false, false) => format!("{pipe} was not paused"),
    }
}

fn by_whom(pause: &PauseShown) -> String {
    let note = pause.note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
    format!("by {} since {:.0}{note}", pause.by, pause.at)
}

/// The pipes that are paused: part of `status`.
pub fn write_table(paused: &[PausedPipe], output: &mut Output) -> io::Result<()> {
    if paused.is_empty() {
        return Ok(());
    }
    output.line("")?;
    let row = |PausedPipe { pipe, pause }: &PausedPipe| {
        let note = pause.note.clone().unwrap_or_else(|| "-".to_owned());
        vec![pipe.clone(), pause.by.clone(), format!("{:.0}", pause.at), note]
    };
    output.table(&["paused pipe", "by", "since", "note"], &paused.iter().map(row).collect::<Vec<_>>())
}

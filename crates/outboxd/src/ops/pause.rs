//! Pausing and resuming pipes, wherever they run.

use std::sync::Arc;

use jiff::Timestamp;
use outbox::ErrorKind;
use outbox::pauses::{Pause, Paused, Pauses};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::book::no_table;
use super::{Office, Tally, check_id, written_down};
use crate::connection::Connection;
use crate::mistake::did_you_mean;
use crate::trouble::{Exit, Trouble};

/// A note has at most so many characters.
const NOTE: usize = 500;

/// How to pause a pipe.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// Why, for whoever wonders.
    #[serde(default)]
    pub note: Option<String>,
}

/// Who paused a pipe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PauseShown {
    /// Who.
    pub by: String,
    /// When, on the clock of the database.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Why, if that was said.
    pub note: Option<String>,
}

/// A pipe that is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PausedPipe {
    /// The pipe.
    pub pipe: String,
    /// Who paused it.
    #[serde(flatten)]
    pub pause: PauseShown,
}

impl From<&Pause> for PausedPipe {
    fn from(pause: &Pause) -> Self {
        Self { pipe: pause.pipe.clone(), pause: pause.into() }
    }
}

impl From<&Pause> for PauseShown {
    fn from(pause: &Pause) -> Self {
        Self { by: pause.by.clone(), at: pause.at, note: pause.note.clone() }
    }
}

/// What became of a pipe that somebody paused or resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PauseAnswer {
    /// The pipe.
    pub pipe: String,
    /// Whether it is paused now.
    pub paused: bool,
    /// Whether that is new; if not, it was so before and stays so.
    pub changed: bool,
    /// The pause that there is, or the one that has ended.
    pub pause: Option<PauseShown>,
}

/// Pauses these pipes, in all instances. What is paused already stays as it is.
pub async fn pause(
    office: &Office,
    pipes: &[String],
    note: Option<&str>,
    by: &str,
) -> Result<Vec<PauseAnswer>, Trouble> {
    // Nothing changes if one of them is a mistake.
    pipes.iter().try_for_each(|pipe| must_be_there(office, pipe))?;
    let mut answers = Vec::new();
    for pipe in pipes {
        answers.push(pause_one(office, pipe, note, by).await?);
    }
    Ok(answers)
}

/// The same of one pipe.
pub async fn pause_one(
    office: &Office,
    pipe: &str,
    note: Option<&str>,
    by: &str,
) -> Result<PauseAnswer, Trouble> {
    must_be_there(office, pipe)?;
    let note = checked(note)?;
    let (table, connection) = open(office).await?;
    let paused = async {
        let paused = table.pause(pipe, by, note.as_deref()).await;
        paused.map_err(|error| no_table("cannot pause", connection, &error))
    };
    let paused = in_book(office, ("pause", pipe, json!({ "note": note })), by, paused, is_new).await?;
    let (changed, pause) = (is_new(&paused), Some(paused.pause().into()));
    Ok(PauseAnswer { pipe: pipe.to_owned(), paused: true, changed, pause })
}

/// Lets these pipes go on, in all instances. What is not paused stays as it is.
pub async fn resume(office: &Office, pipes: &[String], by: &str) -> Result<Vec<PauseAnswer>, Trouble> {
    for pipe in pipes {
        must_be_known(office, pipe).await?;
    }
    let mut answers = Vec::new();
    for pipe in pipes {
        answers.push(resume_one(office, pipe, by).await?);
    }
    Ok(answers)
}

/// The same of one pipe.
pub async fn resume_one(office: &Office, pipe: &str, by: &str) -> Result<PauseAnswer, Trouble> {
    must_be_known(office, pipe).await?;
    let (table, connection) = open(office).await?;
    let resumed =
        async { table.resume(pipe).await.map_err(|error| no_table("cannot resume", connection, &error)) };
    let ended = in_book(office, ("resume", pipe, json!({})), by, resumed, Option::is_some).await?;
    let (changed, pause) = (ended.is_some(), ended.as_ref().map(Into::into));
    Ok(PauseAnswer { pipe: pipe.to_owned(), paused: false, changed, pause })
}

fn must_be_there(office: &Office, pipe: &str) -> Result<(), Trouble> {
    check_id(pipe)?;
    if office.plan.pipes.contains_key(pipe) { Ok(()) } else { Err(no_pipe(office, pipe)) }
}

/// A pipe that was paused and then taken out of the configuration can be set free, too.
async fn must_be_known(office: &Office, pipe: &str) -> Result<(), Trouble> {
    let Err(trouble) = must_be_there(office, pipe) else { return Ok(()) };
    let is_paused = pauses(office).await?.iter().any(|pause| pause.pipe == pipe);
    if is_paused { Ok(()) } else { Err(trouble) }
}

/// Every pause there is; nothing if there is no table of them.
pub async fn pauses(office: &Office) -> Result<Vec<Pause>, Trouble> {
    let Some(audit) = &office.plan.audit else { return Ok(Vec::new()) };
    let doing = "cannot tell which pipes are paused";
    let listed = async {
        match async { office.databases.pauses(&audit.connection).await?.list().await }.await {
            Ok(pauses) => Ok(pauses),
            Err(error) if error.kind() == ErrorKind::NotMigrated => Ok(Vec::new()),
            Err(error) => Err(Trouble::at_database(doing, &audit.connection, &error)),
        }
    };
    office.look(doing, listed).await
}

fn is_new(paused: &Paused) -> bool {
    matches!(paused, Paused::Now(_))
}

async fn open(office: &Office) -> Result<(Arc<dyn Pauses>, &Connection), Trouble> {
    let Some(audit) = &office.plan.audit else {
        let what = "there is no place to write down which pipes are paused";
        let help = "name a database: [audit] with on = \"connection\", then run `outboxd migrate`";
        return Err(Trouble::new(Exit::Config, what, help));
    };
    let connection = &audit.connection;
    let table = office.databases.pauses(connection).await;
    let table = table.map_err(|error| no_table("cannot pause or resume", connection, &error))?;
    Ok((table, connection))
}

/// Does it, written down before and after.
async fn in_book<T>(
    office: &Office,
    (action, pipe, detail): (&str, &str, Value),
    by: &str,
    act: impl Future<Output = Result<T, Trouble>>,
    has_changed: fn(&T) -> bool,
) -> Result<T, Trouble> {
    let book = office.book(by).await?;
    let (changed, mut done) = (Tally::default(), None);
    let act = async {
        let told = act.await?;
        changed.add(u64::from(has_changed(&told)));
        done = Some(told);
        Ok(())
    };
    let written = written_down(Some(&book), (action, pipe, &[], detail), &changed, act).await;
    // Also if only the last words could not be written: it is done.
    office.following.nudge();
    written?;
    done.ok_or_else(|| Trouble::new(Exit::Failed, format!("cannot {action} '{pipe}'"), "try again"))
}

fn no_pipe(office: &Office, name: &str) -> Trouble {
    let help = did_you_mean(name, office.plan.pipes.keys().map(String::as_str));
    Trouble::usage(format!("there is no pipe '{name}'"), help).unknown()
}

/// In one line: it stands in tables and logs.
fn checked(note: Option<&str>) -> Result<Option<String>, Trouble> {
    let Some(note) = note.map(str::trim).filter(|note| !note.is_empty()) else { return Ok(None) };
    if note.chars().count() > NOTE {
        let what = format!("the note has more than {NOTE} characters");
        return Err(Trouble::usage(what, "say it in a sentence"));
    }
    Ok(Some(note.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_one_line_and_not_a_book() {
        assert_eq!(checked(None).expect("fine"), None);
        assert_eq!(checked(Some(" \n")).expect("fine"), None);
        assert_eq!(checked(Some(" a\nb\u{1b}[31m ")).expect("fine").as_deref(), Some("a b [31m"));
        assert!(checked(Some(&"é".repeat(500))).is_ok());
        let refused = checked(Some(&"é".repeat(501))).expect_err("too long");
        assert_eq!(refused.to_string(), "the note has more than 500 characters");
    }
}

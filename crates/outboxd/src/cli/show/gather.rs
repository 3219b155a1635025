//! Looks for a message everywhere that the configuration names. What does not answer is told, and does not hide the rest.

use futures_util::future::join_all;
use outbox::{ErrorKind, MessageId};

use super::life::{Life, Written};
use crate::backends::{self, Databases};
use crate::cli::dlq::Dead;
use crate::cli::open;
use crate::plan::{InboxPlan, Plan, SourcePlan};
use crate::trouble::{Trouble, is_out_of_reach};

/// A queue or topic is looked through up to so many messages.
const MOST: usize = 100_000;

/// What one place knows.
type Told = Result<Life, Trouble>;

/// What is known of a message at these sources, and with the consumers of all pipes.
pub async fn gather(plan: &Plan, sources: &[&SourcePlan], id: &MessageId) -> (Life, Vec<Trouble>) {
    let databases = Databases::default();
    let inboxes = inboxes(plan);
    let at_sources = join_all(sources.iter().map(|source| async {
        if source.is_on_broker() { at_broker(source, id).await } else { in_outbox(plan, source, id).await }
    }));
    let at_inboxes = join_all(inboxes.iter().map(|inbox| in_inbox(&databases, inbox, id)));
    let (at_sources, at_inboxes) = futures_util::join!(at_sources, at_inboxes);
    let (mut life, mut troubles) = (Life::default(), Vec::new());
    for told in at_sources.into_iter().chain(at_inboxes) {
        match told {
            Ok(told) => life.add(told),
            Err(trouble) => {
                life.unseen.push(trouble.to_string());
                troubles.push(trouble);
            }
        }
    }
    life.handled.sort_by_key(|one| (one.at.is_none(), one.at));
    (life, troubles)
}

impl Life {
    fn add(&mut self, other: Self) {
        self.message = self.message.take().or(other.message);
        self.written.extend(other.written);
        self.handled.extend(other.handled);
        self.retries.extend(other.retries);
        self.letters.extend(other.letters);
        self.unseen.extend(other.unseen);
    }
}

/// The inboxes of all sinks, each once.
fn inboxes(plan: &Plan) -> Vec<&InboxPlan> {
    let mut inboxes: Vec<&InboxPlan> = Vec::new();
    for inbox in plan.sinks.values().filter_map(|sink| sink.inbox.as_ref()) {
        let is_same =
            |other: &&InboxPlan| other.connection.name == inbox.connection.name && other.table == inbox.table;
        if !inboxes.iter().any(is_same) {
            inboxes.push(inbox);
        }
    }
    inboxes
}

async fn in_outbox(plan: &Plan, source: &SourcePlan, id: &MessageId) -> Told {
    let opened = open(source).await?;
    let story = opened.log.admin().show(id).await;
    let story = story.map_err(|error| opened.trouble("cannot show the message", &error))?;
    let Some(story) = story else { return Ok(Life::default()) };
    let publisher = plan.publishers.values().find(|publisher| publisher.keep == source.name);
    let written = Written {
        source: source.name.clone(),
        publisher: publisher.map(|publisher| publisher.name.clone()),
        entries: story.entries.into_iter().filter(|entry| entry.cursor.is_some()).collect(),
    };
    Ok(Life { message: Some(story.message), written: vec![written], ..Life::default() })
}

/// Its retries and its dead letters. The queue itself is not looked at: that would disturb its consumers.
async fn at_broker(source: &SourcePlan, id: &MessageId) -> Told {
    let trouble = |error: &outbox::Error| Trouble::at_source("cannot look for the message", source, error);
    let Some(letters) = backends::letters(source) else { return Ok(Life::default()) };
    let letters = letters.map_err(|error| trouble(&error))?;
    let mut life = Life::default();
    let mut retries = letters.retries(MOST).await.map_err(|error| trouble(&error))?;
    retries.retain(|waiting| waiting.message.id == *id);
    life.message = retries.first().map(|waiting| waiting.message.clone());
    life.retries = retries;
    let looked = match letters.look(MOST).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(life),
        looked => looked.map_err(|error| trouble(&error))?,
    };
    if looked.more {
        life.unseen.push(format!("{}: more than was looked at", letters.place()));
    }
    for letter in looked.letters.into_iter().filter(|letter| letter.message.id == *id) {
        let dead = Dead::letter(&source.name, letter);
        life.message.get_or_insert_with(|| dead.message.clone());
        life.letters.push((letters.place().to_owned(), dead));
    }
    Ok(life)
}

async fn in_inbox(databases: &Databases, plan: &InboxPlan, id: &MessageId) -> Told {
    let told = async { databases.inbox(plan).await?.history(id).await };
    match told.await {
        Ok(handled) => Ok(Life { handled, ..Life::default() }),
        Err(error) => {
            let exit = if is_out_of_reach(error.kind()) {
                crate::trouble::Exit::Source
            } else {
                crate::trouble::Exit::Failed
            };
            let what = format!("cannot ask the inbox in '{}': {}", plan.connection.name, error.chain());
            Err(Trouble::new(exit, what, error.advice()))
        }
    }
}

//! Looks for a message everywhere that the configuration names. What does not answer is told, and does not hide the rest.

use std::sync::Arc;

use futures_util::future::join_all;
use outbox::errors::ErrorFilter;
use outbox::letters::DeadLetters;
use outbox::{ErrorKind, MessageId};

use super::life::{Life, Written};
use crate::backends::{self, Databases};
use crate::ops::Office;
use crate::ops::dead::{Dead, GLANCE};
use crate::ops::errors::desks;
use crate::plan::{InboxPlan, Plan, SourcePlan, Target};
use crate::trouble::{Trouble, is_out_of_reach};

/// A queue or topic is looked through up to so many messages.
const MOST: usize = 100_000;

/// What one place knows.
type Told = Result<Life, Trouble>;

/// What is known of a message at these sources, and with the consumers of all pipes.
pub async fn gather(office: &Office, sources: &[&SourcePlan], id: &MessageId) -> (Life, Vec<Trouble>) {
    let (plan, databases) = (&*office.plan, &*office.databases);
    let inboxes = inboxes(plan);
    // What lies furthest ahead comes first: whatever led there was written down before, and is then seen as well.
    let (brokers, outboxes): (Vec<_>, Vec<_>) = sources.iter().partition(|source| source.is_on_broker());
    let at_brokers = join_all(
        brokers
            .into_iter()
            .map(|source| office.look("cannot look for the message", at_broker(office, source, id))),
    )
    .await;
    let at_tables = office.look("cannot read the error tables", in_error_tables(office, id));
    let at_inboxes = join_all(
        inboxes.iter().map(|inbox| office.look("cannot ask the inbox", in_inbox(databases, inbox, id))),
    );
    let (at_tables, at_inboxes) = futures_util::join!(at_tables, at_inboxes);
    let in_outboxes = join_all(
        outboxes
            .into_iter()
            .map(|source| office.look("cannot show the message", in_outbox(office, source, id))),
    )
    .await;
    let (mut life, mut troubles) = (Life::default(), Vec::new());
    let later = at_brokers.into_iter().chain(at_inboxes).chain([at_tables]);
    // The outbox has the message as it was written.
    for told in in_outboxes.into_iter().chain(later) {
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
        self.errors.extend(other.errors);
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

async fn in_outbox(office: &Office, source: &SourcePlan, id: &MessageId) -> Told {
    let opened = office.open(source).await?;
    let story = opened.log.admin().show(id).await;
    let story = story.map_err(|error| opened.trouble("cannot show the message", &error))?;
    let Some(story) = story else { return Ok(Life::default()) };
    let written = Written {
        source: source.name.clone(),
        entries: story.entries.into_iter().filter(|entry| entry.cursor.is_some()).collect(),
    };
    Ok(Life { message: Some(story.message), written: vec![written], ..Life::default() })
}

/// Its retries and its dead letters. The queue itself is not looked at: that would disturb its consumers.
async fn at_broker(office: &Office, source: &SourcePlan, id: &MessageId) -> Told {
    let trouble = |error: &outbox::Error| Trouble::at_source("cannot look for the message", source, error);
    let Some(letters) = backends::letters(source) else { return Ok(Life::default()) };
    let letters: Arc<dyn DeadLetters> = letters.map_err(|error| trouble(&error))?.into();
    let most = if office.is_hurried() { GLANCE } else { MOST };
    let mut life = Life::default();
    let theirs = letters.clone();
    let retries = office.looks.to_the_end(letters.place(), async move { theirs.retries(most).await });
    let mut retries = retries.await.map_err(|error| trouble(&error))?;
    if retries.len() >= most {
        life.unseen.push(format!("the retries of source '{}': more than was looked at", source.name));
    }
    retries.retain(|waiting| waiting.message.id == *id);
    life.message = retries.first().map(|waiting| waiting.message.clone());
    life.retries = retries;
    let theirs = letters.clone();
    let looked = office.looks.to_the_end(letters.place(), async move { theirs.look(most).await });
    let looked = match looked.await {
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

async fn in_error_tables(office: &Office, id: &MessageId) -> Told {
    let mut life = Life::default();
    if !office.plan.sinks.values().any(|sink| matches!(sink.target, Target::ErrorLog(..))) {
        return Ok(life);
    }
    for desk in desks(office, None).await? {
        let filter = ErrorFilter { message_id: Some(id.clone()), ..ErrorFilter::default() };
        let records = desk.log.list(&filter).await;
        let records = records.map_err(|error| desk.trouble("cannot read the error table", &error))?;
        life.errors.extend(records.into_iter().map(|record| (desk.sink.to_owned(), record)));
    }
    Ok(life)
}

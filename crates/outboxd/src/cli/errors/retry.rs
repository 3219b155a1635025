//! `errors retry`: sends messages back to where they failed, and notes that.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use outbox::errors::ErrorRecord;
use outbox::{ErrorKind, MessageId, Outcome, Sink};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::args::ErrorsRetryArgs;
use super::desk::{Desk, Found, errors};
use crate::backends::{self, Databases};
use crate::cli::consent::{Answer, ask};
use crate::cli::output::Output;
use crate::cli::progress::bar;
use crate::ops::Book;
use crate::plan::{Layout, Plan, SourcePlan};
use crate::trouble::{Exit, Trouble};

/// Sends errors back; tells first how many are meant.
pub async fn retry(args: &ErrorsRetryArgs, plan: &Plan, output: &mut Output) -> anyhow::Result<Exit> {
    let found = Found::look(plan, &args.chosen, output).await?;
    let matched = found.matched;
    // All ways are known before the first message goes.
    let mut ways = Ways::default();
    for (desk, records) in &found.tables {
        for record in records {
            ways.find(plan, desk.sink, &record.origin)?;
        }
    }
    let answer = ask(&format!("send back {}", errors(matched)), matched, args.consent, output)?;
    let mut done = 0;
    if answer == Answer::Yes {
        let book = Book::open(plan, &Databases::default(), &args.by.name()).await?;
        let progress = bar(matched);
        let mut next = Instant::now();
        for (desk, records) in found.tables.iter().filter(|(_, records)| !records.is_empty()) {
            let ids: Vec<MessageId> = records.iter().map(|record| record.message_id.clone()).collect();
            let page = book.begin("errors.retry", &desk.name(), &ids, args.chosen.to_json()).await?;
            let mut here = 0;
            for record in records {
                sleep_until(next).await;
                next += args.rate.map(outbox::letters::Pace::each).unwrap_or_default();
                let sink = ways.find(plan, desk.sink, &record.origin)?;
                if let Err(trouble) = send_back(desk, record, &sink, book.who()).await {
                    progress.finish_and_clear();
                    page.failed(here, &trouble).await;
                    output.note(format_args!("{} of {matched} were sent back before it failed", done + here));
                    return Err(trouble.into());
                }
                here += 1;
                progress.set_position(done + here);
            }
            page.done(json!({ "changed": here })).await?;
            done += here;
        }
        progress.finish_and_clear();
    }
    found.report("errors retry", "sent back", (answer == Answer::Yes).then_some(done), output)
}

/// Sends one back, and notes it once it has arrived. Whoever is cut off in between sends it twice.
async fn send_back(
    desk: &Desk<'_>,
    record: &ErrorRecord,
    sink: &Arc<dyn Sink>,
    by: &str,
) -> Result<(), Trouble> {
    // As it is now: somebody may have edited it since it was listed.
    let whole = desk.log.show(&record.id).await;
    let whole = whole.map_err(|error| desk.trouble("cannot read the error table", &error))?;
    let Some(whole) = whole else { return Err(super::show::no_such(&record.id)) };
    let message = whole.returned(by, Timestamp::now());
    let outcome = sink.deliver(std::slice::from_ref(&message)).await.pop();
    let why = match outcome {
        Some(Outcome::Delivered) => None,
        Some(Outcome::Rejected(rejection)) => Some(rejection.cause.to_string()),
        Some(Outcome::Unavailable(cause)) => Some(cause.to_string()),
        None => Some("no answer".to_owned()),
    };
    if let Some(why) = why {
        let what = format!("cannot send message {} back to '{}': {why}", record.message_id, record.origin);
        return Err(Trouble::new(
            Exit::Sink,
            what,
            "check that the broker runs and that the queue or topic is there",
        ));
    }
    let noted = desk.log.returned(&record.id, by).await;
    noted.map_err(|error| desk.trouble("sent back, but cannot note it", &error))
}

/// The ways back to queues and topics, each opened once.
#[derive(Default)]
struct Ways(BTreeMap<(String, String), Arc<dyn Sink>>);

impl Ways {
    fn find(&mut self, plan: &Plan, table: &str, origin: &str) -> Result<Arc<dyn Sink>, Trouble> {
        let source = reader_of(plan, table, origin)?;
        let key = (source.connection.name.clone(), origin.to_owned());
        if let Some(sink) = self.0.get(&key) {
            return Ok(sink.clone());
        }
        let sink = backends::way_back(source, origin).map_err(|error| {
            let exit = if error.kind() == ErrorKind::Config { Exit::Config } else { Exit::Sink };
            Trouble::new(
                exit,
                format!("cannot send anything back to '{origin}': {}", error.chain()),
                error.advice(),
            )
        })?;
        self.0.insert(key, sink.clone());
        Ok(sink)
    }
}

/// Who knows the broker where the queue or topic is from which an error came: the source that reads it, or that of the
/// dead letters which the error table is fed from.
fn reader_of<'p>(plan: &'p Plan, table: &str, origin: &str) -> Result<&'p SourcePlan, Trouble> {
    let reads = |layout: &Layout| match layout {
        Layout::Queue(options) => options.queue == origin,
        Layout::Topic(options) => options.topics.iter().any(|topic| topic == origin),
        Layout::Log(_) | Layout::Table(_) => false,
    };
    if let Some(source) = plan.sources.values().find(|source| reads(&source.layout)) {
        return Ok(source);
    }
    let feeders = plan.pipes.values().filter(|pipe| pipe.to == table);
    let feeders =
        feeders.filter_map(|pipe| plan.sources.get(&pipe.from)).filter(|source| source.is_on_broker());
    let brokers: BTreeMap<&str, &SourcePlan> =
        feeders.map(|source| (source.connection.name.as_str(), source)).collect();
    let mut brokers = brokers.into_values();
    match (brokers.next(), brokers.next()) {
        (Some(only), None) if origin != "unknown" => Ok(only),
        _ => {
            let what = format!("nobody knows where '{origin}' is, from which an error came");
            let help =
                "name it as a source with queue or topic, or resolve the error with `outboxd errors resolve`";
            Err(Trouble::usage(what, help))
        }
    }
}

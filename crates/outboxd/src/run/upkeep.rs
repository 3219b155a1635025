//! What is old is removed, now and then and in small steps: messages that are done, ids that no longer come again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outbox::ErrorKind;
use tokio_util::sync::CancellationToken;

use crate::backends::{Databases, Inbox, Log};
use crate::plan::{InboxPlan, Plan, SourcePlan};

/// How often what is old is removed, and how much at a time.
const PAUSE: Duration = Duration::from_secs(600);
const STEP: u32 = 1_000;

/// Removes what is old, now and then, in small steps.
pub(super) async fn retain(source: Arc<SourcePlan>, log: Log, age: Duration, stop: CancellationToken) {
    let mut failing = false;
    loop {
        let mut removed = 0;
        loop {
            match log.admin().purge(age, STEP, false).await {
                Ok(step) => {
                    failing = false;
                    removed += step;
                    if step < u64::from(STEP) || stop.is_cancelled() {
                        break;
                    }
                }
                // The pipes tell of it, and end.
                Err(error) if error.kind() == ErrorKind::NotMigrated => return,
                Err(error) => {
                    if !failing {
                        tracing::warn!(
                            source = source.name,
                            error = error.chain(),
                            "cannot remove what is old"
                        );
                    }
                    failing = true;
                    break;
                }
            }
        }
        if removed > 0 {
            tracing::info!(source = source.name, removed, "removed what is old");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// A consumer whose ids are forgotten when they are older than the window.
#[derive(Debug, Clone)]
pub(super) struct Pruned {
    inbox: InboxPlan,
    consumer: String,
    window: Duration,
}

/// Every pipe with an inbox that forgets, with its own window: what else is in the table may belong to somebody who
/// remembers for longer. Pipes that share a table which does not say whose an id is share the longest window too; if
/// one of them keeps all, nothing is forgotten.
pub(super) fn pruned(plan: &Plan) -> Vec<Pruned> {
    let inboxes = || {
        let inbox = |to: &String| plan.sinks.get(to).and_then(|sink| sink.inbox.as_ref());
        plan.pipes.values().filter_map(move |pipe| Some((&pipe.name, inbox(&pipe.to)?)))
    };
    let mut shared: BTreeMap<_, Option<Duration>> = BTreeMap::new();
    for inbox in inboxes().map(|(_, inbox)| inbox) {
        if let Some(table) = shared_table(inbox) {
            let longest = shared.entry(table).or_insert(inbox.window);
            *longest = longest.zip(inbox.window).map(|(one, other)| one.max(other));
        }
    }
    let pruned = |(consumer, inbox): (&String, &InboxPlan)| {
        let window = shared_table(inbox).map_or(inbox.window, |table| shared[&table])?;
        Some(Pruned { inbox: inbox.clone(), consumer: consumer.clone(), window })
    };
    inboxes().filter_map(pruned).collect()
}

/// Where the ids of all consumers are one's: the database, whatever its connection is called, and the table.
fn shared_table(inbox: &InboxPlan) -> Option<(&str, Option<&str>, &str)> {
    let table = inbox.table.as_ref().filter(|table| table.consumer.is_none())?;
    Some((inbox.connection.url.reveal(), table.schema.as_deref(), &table.table))
}

/// Forgets ids that are older than the window, until the stop.
///
/// Not at once: after a long standstill the first messages to come may be some that were handled before it, and their
/// ids must still be known.
pub(super) async fn prune(databases: Arc<Databases>, pruned: Pruned, stop: CancellationToken) {
    let Pruned { inbox: plan, consumer, window } = pruned;
    let mut failing = false;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
        let removed = match databases.inbox(&plan).await {
            Ok(inbox) => prune_all(&inbox, &consumer, window, &stop).await,
            Err(error) => Err(error),
        };
        let connection = &plan.connection.name;
        match removed {
            Ok(0) => {}
            Ok(removed) => tracing::info!(inbox = connection, consumer, removed, "forgot ids that are old"),
            Err(error) if !failing => {
                let error = error.chain();
                tracing::warn!(inbox = connection, consumer, error, "cannot forget ids that are old");
                failing = true;
                continue;
            }
            Err(_) => continue,
        }
        failing = false;
    }
}

async fn prune_all(
    inbox: &Inbox,
    consumer: &str,
    window: Duration,
    stop: &CancellationToken,
) -> outbox::Result<u64> {
    let mut removed = 0;
    loop {
        let step = inbox.prune(consumer, window, STEP).await?;
        removed += step;
        if step < u64::from(STEP) || stop.is_cancelled() {
            return Ok(removed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use outbox::{Inbox as _, MessageId, sqlite};

    use super::*;

    fn plan(folder: &Path, sinks: &str) -> Plan {
        let text = format!(
            "[connections]\nshop = \"sqlite:shop.db\"\nagain = \"sqlite:shop.db\"\nother = \"sqlite:other.db\"\n[sources.s]\non = \"shop\"\n{sinks}"
        );
        Plan::parse(&folder.join("outboxd.toml"), &text, &|_| None).expect("it is valid").plan
    }

    fn hook(name: &str, more: &str) -> String {
        format!(
            "[sinks.{name}]\nhttp = \"https://x.example/\"\n{more}\n[pipes.{name}]\nfrom = \"s\"\nto = \"{name}\"\n"
        )
    }

    /// Each consumer with the hours of its window.
    fn shown(sinks: &[&str]) -> Vec<(String, u64)> {
        let pruned = pruned(&plan(Path::new("/srv"), &sinks.concat())).into_iter();
        pruned.map(|pruned| (pruned.consumer, pruned.window.as_secs() / 3_600)).collect()
    }

    fn expected(windows: &[(&str, u64)]) -> Vec<(String, u64)> {
        windows.iter().map(|(consumer, hours)| ((*consumer).to_owned(), *hours)).collect()
    }

    #[test]
    fn d3_each_consumer_is_pruned_by_its_own_window() {
        let one = hook("one", "inbox = \"shop\"\ninbox_window = \"2d\"");
        let two = hook("two", "inbox = \"again\"\ninbox_window = \"3d\"");
        let all = hook("all", "inbox = \"shop\"\ninbox_window = \"never\"");
        let other = hook("other", "inbox = \"other\"");
        let mapped = hook("mapped", "inbox = { on = \"shop\", table = \"T\", id = \"I\" }");
        let windows = [("one", 48), ("other", 168), ("two", 72)];
        assert_eq!(shown(&[&one, &two, &all, &other, &mapped]), expected(&windows));
    }

    #[test]
    fn d3_a_table_that_does_not_say_whose_an_id_is_is_pruned_by_the_longest_window() {
        let table = |name: &str, on: &str, window: &str| {
            let inbox = format!("{{ on = \"{on}\", table = \"T\", id = \"I\", at = \"A\" }}");
            hook(name, &format!("inbox = {inbox}\ninbox_window = \"{window}\""))
        };
        let (one, two) = (table("one", "shop", "2d"), table("two", "again", "3d"));
        let other = table("other", "other", "1d");
        let windows = [("one", 72), ("other", 24), ("two", 72)];
        assert_eq!(shown(&[&one, &two, &other]), expected(&windows), "two names of one database");
        let all = table("all", "shop", "never");
        assert_eq!(shown(&[&one, &two, &other, &all]), expected(&[("other", 24)]));
    }

    #[tokio::test]
    async fn d3_what_is_older_than_the_window_is_forgotten_in_steps() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let plan = plan(folder.path(), &hook("hook", "inbox = \"shop\"\ninbox_window = \"1h\""));
        let outbox = sqlite::Outbox::connect(plan.connections["shop"].url.reveal()).await?;
        outbox.migrate().await?;
        let known = outbox.inbox();
        let ids: Vec<MessageId> = (0..STEP * 2 + 5).map(|n| n.to_string().as_str().into()).collect();
        let mut tx = known.begin().await?;
        known.record(&mut tx, "hook", &ids.iter().collect::<Vec<_>>()).await?;
        known.commit(tx).await?;
        let older = "UPDATE outbox_inbox SET handled_at = handled_at - 7200000 WHERE message_id <> '3'";
        sqlx::query(older).execute(outbox.pool()).await?;
        let databases = Databases::default();
        let [pruned] = &pruned(&plan)[..] else { panic!("there is one inbox") };
        let opened = databases.inbox(&pruned.inbox).await?;
        let stop = CancellationToken::new();
        let removed = prune_all(&opened, &pruned.consumer, pruned.window, &stop).await?;
        assert_eq!(removed, u64::from(STEP) * 2 + 4);
        assert_eq!(known.known("hook", &[&ids[3], &ids[4]]).await?, [true, false]);
        Ok(())
    }
}

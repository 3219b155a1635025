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

/// The inboxes that are pruned, each with its window. A table is one for all of its consumers, so the longest window
/// counts; one that keeps all keeps all of them.
pub(super) fn windows(plan: &Plan) -> Vec<(InboxPlan, Duration)> {
    let mut inboxes: BTreeMap<_, InboxPlan> = BTreeMap::new();
    for inbox in plan.sinks.values().filter_map(|sink| sink.inbox.as_ref()) {
        let table = inbox.table.as_ref().map(|table| (table.schema.clone(), table.table.clone()));
        let known = inboxes.entry((inbox.connection.name.clone(), table)).or_insert_with(|| inbox.clone());
        known.window = known.window.zip(inbox.window).map(|(one, other)| one.max(other));
    }
    inboxes.into_values().filter_map(|inbox| inbox.window.map(|window| (inbox, window))).collect()
}

/// Forgets ids that are older than the window, until the stop.
///
/// Not at once: after a long standstill the first messages to come may be some that were handled before it, and their
/// ids must still be known.
pub(super) async fn prune(
    databases: Arc<Databases>,
    plan: InboxPlan,
    window: Duration,
    stop: CancellationToken,
) {
    let mut failing = false;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
        let pruned = match databases.inbox(&plan).await {
            Ok(inbox) => prune_all(&inbox, window, &stop).await,
            Err(error) => Err(error),
        };
        let connection = &plan.connection.name;
        match pruned {
            Ok(0) => {}
            Ok(removed) => tracing::info!(inbox = connection, removed, "forgot ids that are old"),
            Err(error) if !failing => {
                tracing::warn!(inbox = connection, error = error.chain(), "cannot forget ids that are old");
                failing = true;
                continue;
            }
            Err(_) => continue,
        }
        failing = false;
    }
}

async fn prune_all(inbox: &Inbox, window: Duration, stop: &CancellationToken) -> outbox::Result<u64> {
    let mut removed = 0;
    loop {
        let step = inbox.prune(window, STEP).await?;
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
            "[connections]\nshop = \"sqlite:shop.db\"\nother = \"sqlite:other.db\"\n[sources.s]\non = \"shop\"\n{sinks}"
        );
        Plan::parse(&folder.join("outboxd.toml"), &text, &|_| None).expect("it is valid").plan
    }

    fn hook(name: &str, more: &str) -> String {
        format!("[sinks.{name}]\nhttp = \"https://x.example/\"\n{more}\n")
    }

    #[test]
    fn d3_a_table_is_pruned_by_the_longest_window_of_its_consumers() {
        let shown = |sinks: &[String]| {
            let plan = plan(Path::new("/srv"), &sinks.concat());
            let windows = windows(&plan).into_iter();
            windows
                .map(|(inbox, window)| (inbox.connection.name, window.as_secs() / 3_600))
                .collect::<Vec<_>>()
        };
        let one = hook("one", "inbox = \"shop\"\ninbox_window = \"2d\"");
        let two = hook("two", "inbox = \"shop\"\ninbox_window = \"3d\"");
        let other = hook("other", "inbox = \"other\"");
        let all = hook("all", "inbox = \"shop\"\ninbox_window = \"never\"");
        let mapped = hook("mapped", "inbox = { on = \"shop\", table = \"T\", id = \"I\" }");
        let expected = [("other".to_owned(), 168), ("shop".to_owned(), 72)];
        assert_eq!(shown(&[one.clone(), two.clone(), other.clone(), mapped]), expected);
        assert_eq!(shown(&[one, two, other, all]), [("other".to_owned(), 168)]);
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
        known.record(&mut tx, "pipe", &ids.iter().collect::<Vec<_>>()).await?;
        known.commit(tx).await?;
        let older = "UPDATE outbox_inbox SET handled_at = handled_at - 7200000 WHERE message_id <> '3'";
        sqlx::query(older).execute(outbox.pool()).await?;
        let databases = Databases::default();
        let [(inbox, window)] = &windows(&plan)[..] else { panic!("there is one inbox") };
        let opened = databases.inbox(inbox).await?;
        let removed = prune_all(&opened, *window, &CancellationToken::new()).await?;
        assert_eq!(removed, u64::from(STEP) * 2 + 4);
        assert_eq!(known.known("pipe", &[&ids[3], &ids[4]]).await?, [true, false]);
        Ok(())
    }
}

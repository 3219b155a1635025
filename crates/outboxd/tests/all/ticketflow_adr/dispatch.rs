//! D4 and D6: from the table to the broker, and out of the table.

use std::collections::BTreeSet;

use testbed::RabbitMq;

use super::{FOLDER, Scene, stop};
use crate::program::Program;

/// The first figure of a line in what `config show` says of a pipe.
fn shown<'s>(config: &'s str, key: &str) -> &'s str {
    let pipe = config.split("[pipes.dispatch]").nth(1).unwrap();
    let line = pipe.lines().find(|line| line.starts_with(&format!("{key} = "))).unwrap();
    line.split_once(" = ").unwrap().1
}

#[test]
fn d4_the_interval_is_half_a_second_or_what_the_environment_says() {
    let program = Program::new();
    let file = format!("{FOLDER}/outboxd.toml");
    let mut command = program.command(&["config", "show", "--config", &file]);
    let given = Program::finish(command.env_remove("OUTBOX_DISPATCH_INTERVAL_MS"));
    assert_eq!((shown(&given.stdout, "poll"), shown(&given.stdout, "batch")), ("\"500ms\"", "100"));
    let changed = Program::finish(command.env("OUTBOX_DISPATCH_INTERVAL_MS", "250"));
    assert_eq!(shown(&changed.stdout, "poll"), "\"250ms\"");
    let wrong = Program::finish(command.env("OUTBOX_DISPATCH_INTERVAL_MS", "often"));
    assert!(wrong.only_error(3).0.contains("pipes.dispatch.poll"), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d4_a_hundred_are_dispatched_at_a_time() {
    let Some(scene) = Scene::shared(&[]).await else { return };
    scene.create_at_once(250).await;
    // The very file, not a copy.
    let file = format!("{FOLDER}/outboxd.toml");
    let mut running = scene.program.start(&["run", "--config", &file]);
    running.wait_for("started pipe");
    scene.until_dispatched().await;
    scene.until_processed("count", 250).await;
    // A row bears the transaction that has marked it.
    let batches: Vec<i64> =
        sqlx::query_scalar(r#"select count(*) from "Outbox" group by xmin::text order by 1 desc"#)
            .fetch_all(&scene.pool)
            .await
            .unwrap();
    assert_eq!(batches, [100, 100, 50]);
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn d4_nothing_is_lost_while_the_broker_is_down() {
    let Some(mut broker) = testbed::available(RabbitMq::start().await) else { return };
    let Some(scene) = Scene::at(&broker, "outboxd.toml", &[]).await else { return };
    let consumer = scene.run(&["count"]);
    scene.until_queue("metrics", 0).await;
    stop(consumer);
    let mut running = scene.run(&["dispatch"]);
    scene.create_at_once(30).await;
    scene.until_dispatched().await;
    broker.stop().await.unwrap();
    scene.create_at_once(120).await;
    running.wait_for("pipe=\"dispatch\"");
    assert_eq!(scene.number(r#"select count(*) from "Outbox" where "DispatchedAt" is null"#).await, 120);
    broker.start_again().await.unwrap();
    scene.until_dispatched().await;
    stop(running);
    let arrived = scene.queue("metrics").await.drain().await;
    let ids: BTreeSet<String> = arrived.iter().map(|one| one.headers["x-event-id"].clone()).collect();
    let written: Vec<String> =
        sqlx::query_scalar(r#"select "Id"::text from "Outbox""#).fetch_all(&scene.pool).await.unwrap();
    assert_eq!(ids, written.into_iter().collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn d6_what_was_dispatched_thirty_days_ago_is_removed_in_bounded_steps() {
    let Some(scene) = Scene::shared(&[]).await else { return };
    scene
        .execute(
            r#"
            insert into "Outbox" ("Id", "Type", "PayloadJson", "CorrelationId", "OccurredAt", "DispatchedAt")
            select gen_random_uuid(), 'ticket.created', '{}', '', now() - interval '40 days', at
            from (select now() - interval '31 days' as at from generate_series(1, 2500)
                  union all select now() - interval '29 days' from generate_series(1, 10)) old;
            create table steps (removed bigint);
            create function note() returns trigger language plpgsql as
                $$ begin insert into steps select count(*) from gone; return null; end $$;
            create trigger note after delete on "Outbox" referencing old table as gone
                for each statement execute function note();"#,
        )
        .await;
    // An old one that was never dispatched stays, whatever its age: nobody wants it.
    scene
        .execute(
            r#"insert into "Outbox" ("Id", "Type", "PayloadJson", "CorrelationId", "OccurredAt")
               values (gen_random_uuid(), 'ticket.forgotten', '{}', '', now() - interval '90 days')"#,
        )
        .await;
    let mut running = scene.run(&["dispatch"]);
    running.wait_for("removed what is old");
    assert_eq!(scene.number(r#"select count(*) from "Outbox" where "DispatchedAt" is null"#).await, 1);
    assert_eq!(scene.number(r#"select count(*) from "Outbox""#).await, 11);
    assert_eq!(scene.number("select sum(removed)::bigint from steps").await, 2500);
    assert_eq!(scene.number("select max(removed) from steps").await, 1000);
    stop(running);
}

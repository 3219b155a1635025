//! What a mapped table promises besides the suite, in PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use outbox::admin::{Admin, Filter, Repair, Stand};
use outbox::policy::Verdict;
use outbox::postgres::Table;
use outbox::table::{Draft, Reading};
use outbox::{Cause, ErrorKind, Message, Source, code};
use sqlx::{AssertSqlSafe, PgPool, Row};
use testbed::Database;

use super::fixture::{Tables, checked, draft, insert, stamped, text};

/// A database with what a statement makes in it.
async fn database(ddl: &str) -> Option<(Database, PgPool)> {
    let database = testbed::postgres().await?.database().await.expect("a database");
    let pool = PgPool::connect(database.url()).await.expect("it is up");
    run(&pool, ddl).await;
    Some((database, pool))
}

async fn run(pool: &PgPool, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
        .execute(pool)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}

async fn number(pool: &PgPool, sql: &str) -> i64 {
    sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_one(pool).await.unwrap().get(0)
}

fn source(table: &Table) -> Arc<dyn Source> {
    table.sources(&Reading::default()).remove(0)
}

fn message(payload: &str, key: &str) -> Message {
    Message::new("promise.tested", payload.to_owned()).key(key)
}

async fn write(tables: &Tables, messages: &[Message]) {
    let mut tx = tables.pool.begin().await.unwrap();
    for message in messages {
        insert(&mut tx, "Outbox_c", message).await;
    }
    tx.commit().await.unwrap();
}

fn payloads(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| std::str::from_utf8(&message.payload).unwrap()).collect()
}

fn dead() -> Verdict {
    Verdict::Dead { attempts: 1, cause: Cause::new(code::TOO_LARGE, "too large"), holds: true }
}

#[tokio::test]
async fn every_type_of_id_and_payload_and_mark_is_understood() {
    let ids = [
        ("uuid", "'00000000-0000-7000-8000-00000000000N'"),
        ("bigint", "900719925474099N"),
        ("integer", "N"),
        ("text", "'id-N'"),
        ("varchar(40)", "'id N'"),
        ("char(8)", "'id-N'"),
    ];
    let bodies = [
        ("text", r#"{"a":  1}"#),
        ("json", r#"{"a":  1}"#),
        ("jsonb", r#"{"a": 1}"#),
        ("bytea", r#"{"a":  1}"#),
    ];
    let marks = [
        ("boolean not null default false", "NOT Mark", "Mark = true"),
        ("timestamp", "Mark IS NULL", "Mark = now"),
        ("timestamptz", "\"Mark\" IS NULL", "Mark = now()"),
        ("mood not null default 'NEW'", "Mark = 'NEW'", "Mark = 'OLD'"),
        ("integer not null default 0", "Mark < 1", "Mark = 1"),
        ("text not null default 'new'", "Mark IN ('new', 'again')", "Mark = 'gone'"),
    ];
    let Some((database, pool)) = database("create type mood as enum ('NEW', 'OLD')").await else { return };
    let mut cases = Vec::new();
    for (at, id) in ids.iter().enumerate() {
        cases.push((*id, bodies[at % bodies.len()], marks[at % marks.len()]));
    }
    for (at, (case, (body, sent), (mark, pending, done))) in cases.into_iter().enumerate() {
        let (id_type, id) = case;
        let body_value = if body == "bytea" {
            format!("convert_to('{sent}', 'UTF8')")
        } else {
            format!("'{}'", r#"{"a":  1}"#)
        };
        run(
            &pool,
            &format!(
                r#"create table "T{at}" ("Id" {id_type} primary key, "Body" {body}, "Mark" {mark});
                   insert into "T{at}" ("Id", "Body") values ({}, {body_value}), ({}, {body_value})"#,
                id.replace('N', "1"),
                id.replace('N', "2")
            ),
        )
        .await;
        let draft = Draft {
            table: Some(format!("T{at}")),
            id: text("Id"),
            kind: text("'thing.happened'"),
            payload: text("Body"),
            pending: text(pending),
            done: text(done),
            ..Draft::default()
        };
        let table = Table::connect(database.url(), checked(&draft)).await.unwrap();
        let source = source(&table);
        let claim = source.claim(10).await.unwrap();
        assert_eq!(claim.messages.len(), 2, "{id_type} {body} {mark}");
        assert_eq!(payloads(&claim.messages), [sent, sent], "{body}");
        assert_eq!(claim.messages[0].kind, "thing.happened");
        assert_eq!(claim.messages[0].id.as_str(), id.replace('N', "1").trim_matches('\''), "{id_type}");
        source.settle(&claim, &[Verdict::Done, Verdict::Released]).await.unwrap();
        let again = source.claim(10).await.unwrap();
        assert_eq!(again.messages.len(), 1, "{id_type} {mark}: one is marked, one is not");
        source.settle(&again, &[Verdict::Done]).await.unwrap();
        assert!(source.claim(10).await.unwrap().messages.is_empty());
        source.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_mapping_that_does_not_fit_is_told_in_one_line_with_everything() {
    let ddl = r#"create table "Outbox" ("Id" uuid primary key, "Type" text, "Body" integer, "Attempts" text, "At" timestamptz)"#;
    let Some((database, _pool)) = database(ddl).await else { return };
    let draft = Draft {
        table: text("Outbox"),
        id: text("id"),
        kind: text("Type"),
        payload: text("Body"),
        pending: text("At IS NULL AND Attempts < 5"),
        done: text("At = now"),
        attempts: text("Attempts"),
        processed_table: text("Processed"),
        processed_id: text("EventId"),
        ..Draft::default()
    };
    let error = Table::connect(database.url(), checked(&draft)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mapping);
    let told = error.chain();
    for part in [
        "table 'Outbox' has no column 'id'; it has 'Id'",
        "payload: column 'Body' of table 'Outbox' is int4",
        "attempts: column 'Attempts' of table 'Outbox' is text",
        "there is no table 'Processed'",
    ] {
        assert!(told.contains(part), "{part} is not in: {told}");
    }
    assert!(!told.contains('\n'));
    let missing = Draft { table: text("Outbax"), processed_table: None, processed_id: None, ..draft };
    let error = Table::connect(database.url(), checked(&missing)).await.unwrap_err();
    assert!(error.chain().contains("there is no table 'Outbax'"), "{}", error.chain());
}

#[tokio::test]
async fn a_column_that_is_dropped_while_running_ends_the_source_before_anything_is_sent() {
    for column in ["Body", "Error", "State", "Attempts"] {
        let Some(tables) = Tables::new(draft).await else { return };
        write(&tables, &[message("1", "k")]).await;
        let source = source(&tables.tables[0]);
        source.settle(&source.claim(10).await.unwrap(), &[Verdict::Done]).await.unwrap();
        run(&tables.pool, &format!(r#"alter table "Outbox_c" drop column "{column}""#)).await;
        let error = source.claim(10).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mapping, "{error}");
        assert!(!error.is_temporary() && error.chain().contains(column), "{}", error.chain());
    }
}

#[tokio::test]
async fn a_new_owner_waits_until_nothing_of_the_one_before_is_open() {
    let Some(tables) = Tables::new(draft).await else { return };
    write(&tables, &[message("1", "k"), message("2", "k")]).await;
    let old = source(&tables.tables[0]);
    let claim = old.claim(1).await.unwrap();
    // The session with the lock breaks; the claim lives on, and its message is on its way.
    run(
        &tables.pool,
        "select pg_terminate_backend(l.pid) from pg_locks l join pg_stat_activity a on a.pid = l.pid
         where l.locktype = 'advisory' and l.mode = 'ExclusiveLock' and a.datname = current_database()",
    )
    .await;
    let new = source(&tables.tables[0]);
    for _ in 0..5 {
        assert!(new.claim(10).await.unwrap().messages.is_empty(), "2 would overtake 1");
    }
    assert_eq!(old.claim(10).await.unwrap_err().kind(), ErrorKind::Lost, "it has noticed");
    old.settle(&claim, &[Verdict::Done]).await.expect("what it has locked it may settle");
    assert_eq!(payloads(&new.claim(10).await.unwrap().messages), ["2"]);
}

#[tokio::test]
async fn a_dead_message_holds_its_key_until_a_person_decides_and_over_a_change_of_owner() {
    for (mapping, repair, then) in
        [(draft as fn(&str) -> Draft, Repair::Retry, vec!["1", "2"]), (stamped, Repair::Skip, vec!["2"])]
    {
        let Some(tables) = Tables::new(mapping).await else { return };
        write(&tables, &[message("1", "k"), message("2", "k"), message("x", "other")]).await;
        let table = &tables.tables[0];
        let old = source(table);
        let claim = old.claim(1).await.unwrap();
        old.settle(&claim, &[dead()]).await.unwrap();
        old.close().await.unwrap();
        let new = source(table);
        let claim = new.claim(10).await.unwrap();
        assert_eq!(payloads(&claim.messages), ["x"], "k is held, others are not");
        new.settle(&claim, &[Verdict::Done]).await.unwrap();
        let dead = Filter { stand: Some(Stand::Dead), ..Filter::default() };
        let listed = table.list(&dead).await.unwrap();
        assert_eq!((listed.len(), listed[0].stand), (1, Stand::Dead));
        assert_eq!(listed[0].cause.as_ref().unwrap().code, code::TOO_LARGE);
        assert_eq!(table.repair(&dead, repair, true).await.unwrap(), 1);
        assert!(new.claim(10).await.unwrap().messages.is_empty(), "a rehearsal changes nothing");
        assert_eq!(table.repair(&dead, repair, false).await.unwrap(), 1);
        let mut came = Vec::new();
        let freed = tokio::time::timeout(Duration::from_secs(10), async {
            while came.len() < then.len() {
                let claim = new.claim(10).await.unwrap();
                came.extend(payloads(&claim.messages).into_iter().map(str::to_owned));
                if !claim.messages.is_empty() {
                    new.settle(&claim, &vec![Verdict::Done; claim.messages.len()]).await.unwrap();
                }
                new.wait(Duration::from_millis(50)).await;
            }
        });
        freed.await.expect("the key is free within a second");
        assert_eq!(came, then);
    }
}

#[tokio::test]
async fn a_retry_by_a_person_does_not_wait_for_the_delay() {
    let Some(tables) = Tables::new(draft).await else { return };
    write(&tables, &[message("1", "k")]).await;
    let (table, source) = (&tables.tables[0], source(&tables.tables[0]));
    let claim = source.claim(10).await.unwrap();
    let cause = Cause::new(code::REFUSED, "not now");
    source
        .settle(&claim, &[Verdict::Retry { after: Duration::from_secs(3_600), attempts: 1, cause }])
        .await
        .unwrap();
    let waiting = Filter { stand: Some(Stand::Waiting), ..Filter::default() };
    assert_eq!(table.list(&waiting).await.unwrap()[0].attempts, 1);
    assert_eq!(table.repair(&Filter::default(), Repair::Retry, false).await.unwrap(), 1);
    let came = tokio::time::timeout(Duration::from_secs(10), async {
        loop {
            let claim = source.claim(10).await.unwrap();
            if let [message] = &claim.messages[..] {
                return message.attempts;
            }
            source.wait(Duration::from_millis(50)).await;
        }
    });
    assert_eq!(came.await.expect("within a second, not an hour"), 0);
}

#[tokio::test]
async fn b4_a_row_that_is_no_message_is_set_aside_alone() {
    let Some(tables) = Tables::new(draft).await else { return };
    write(&tables, &[message("1", "a"), message("2", "b"), message("3", "b")]).await;
    run(&tables.pool, r#"update "Outbox_c" set "Body" = null where "Body" = '2'"#).await;
    let source = source(&tables.tables[0]);
    let claim = source.claim(10).await.unwrap();
    let free: Vec<_> = (0..claim.messages.len()).filter(|at| !claim.is_held(*at)).collect();
    assert_eq!(free.len(), 1, "3 waits for 2");
    assert_eq!(payloads(&claim.messages)[free[0]], "1");
    let verdicts: Vec<_> = (0..claim.messages.len())
        .map(|at| if claim.is_held(at) { Verdict::Behind } else { Verdict::Done })
        .collect();
    source.settle(&claim, &verdicts).await.unwrap();
    assert!(source.claim(10).await.unwrap().messages.is_empty());
    let row = sqlx::query(r#"select "State", "Error", "Attempts" from "Outbox_c" where "Body" is null"#);
    let row = row.fetch_one(&tables.pool).await.unwrap();
    assert_eq!(row.get::<String, _>("State"), "dead");
    assert!(row.get::<String, _>("Error").starts_with("UNFIT: the row has no payload"));
}

#[tokio::test]
async fn a4_what_was_published_before_is_marked_and_not_sent() {
    let processed = r#"create table "Processed" ("EventId" uuid primary key, "At" timestamp not null)"#;
    let Some(tables) = Tables::new(draft).await else { return };
    run(&tables.pool, processed).await;
    let draft = Draft {
        processed_table: text("Processed"),
        processed_id: text("EventId"),
        processed_at: text("At"),
        ..draft("c")
    };
    let table = Table::connect(tables.database.url(), checked(&draft)).await.unwrap();
    write(&tables, &[message("1", ""), message("2", ""), message("3", "")]).await;
    run(
        &tables.pool,
        r#"insert into "Processed" select "Id", now() from "Outbox_c" where "Body" in ('1', '3')"#,
    )
    .await;
    let source = source(&table);
    let claim = source.claim(10).await.unwrap();
    assert_eq!((payloads(&claim.messages), claim.skipped()), (vec!["2"], 2));
    source.settle(&claim, &[Verdict::Done]).await.unwrap();
    assert_eq!(
        number(&tables.pool, r#"select count(*) from "Outbox_c" where "SentAt" is not null"#).await,
        3
    );
    assert_eq!(number(&tables.pool, r#"select count(*) from "Processed""#).await, 3);
    // Only such rows: they are marked at once, since nothing will be settled.
    write(&tables, &[message("4", "")]).await;
    run(&tables.pool, r#"insert into "Processed" select "Id", now() from "Outbox_c" where "Body" = '4'"#)
        .await;
    let claim = source.claim(10).await.unwrap();
    assert_eq!((claim.messages.len(), claim.skipped()), (0, 1));
    assert_eq!(number(&tables.pool, r#"select count(*) from "Outbox_c" where "SentAt" is null"#).await, 0);
}

#[tokio::test]
async fn d6_rows_that_were_done_long_ago_are_removed_in_steps_and_others_are_not() {
    let Some(tables) = Tables::new(draft).await else { return };
    write(&tables, &(0..10).map(|n| message(&n.to_string(), "k")).collect::<Vec<_>>()).await;
    run(
        &tables.pool,
        r#"update "Outbox_c" set "State" = 'sent', "SentAt" = now() - interval '40 days' where "Seq" <= 5;
           update "Outbox_c" set "State" = 'sent', "SentAt" = now() where "Seq" = 6"#,
    )
    .await;
    let (table, age) = (&tables.tables[0], Duration::from_secs(30 * 24 * 3_600));
    assert_eq!(table.purge(age, 3, true).await.unwrap(), 3, "a step at most");
    assert_eq!(table.purge(age, 3, false).await.unwrap(), 3);
    assert_eq!(table.purge(age, 3, false).await.unwrap(), 2);
    assert_eq!(table.purge(age, 3, false).await.unwrap(), 0);
    assert_eq!(number(&tables.pool, r#"select count(*) from "Outbox_c""#).await, 5);
}

#[tokio::test]
async fn a10_the_questions_of_every_day_are_answered() {
    let Some(tables) = Tables::new(draft).await else { return };
    write(&tables, &(0..10).map(|n| message(&n.to_string(), "k")).collect::<Vec<_>>()).await;
    run(
        &tables.pool,
        r#"update "Outbox_c" set "State" = 'sent', "SentAt" = now() - interval '2 minutes' where "Seq" <= 2;
           update "Outbox_c" set "State" = 'sent', "SentAt" = now() - interval '2 hours' where "Seq" = 3;
           update "Outbox_c" set "State" = 'sent', "SentAt" = now() where "Seq" = 4;
           update "Outbox_c" set "Attempts" = 3, "Error" = 'REFUSED: no' where "Seq" in (5, 6);
           update "Outbox_c" set "State" = 'dead' where "Seq" = 7"#,
    )
    .await;
    let table = tables.tables[0].clone().pipe("relay");
    let activity = table.activity().await.unwrap().expect("it has a time of done");
    assert_eq!((activity.tried_often, activity.done_last_hour), (2, 3));
    assert_eq!(
        activity.by_minute.iter().map(|(_, count)| *count).collect::<Vec<_>>(),
        [1, 2],
        "newest first"
    );
    let status = table.status().await.unwrap().remove(0);
    assert_eq!((status.pending, status.waiting, status.dead, status.delivered), (3, 2, 1, None));
    assert_eq!((status.cursor.as_str(), status.owner), ("relay", None));
    let source = source(&table);
    source.claim(1).await.unwrap();
    assert_eq!(table.status().await.unwrap()[0].owner.as_deref(), Some("outboxd"));
    let by = |filter: Filter| {
        let table = table.clone();
        async move { table.list(&filter).await.unwrap().len() }
    };
    let all = Filter::default();
    assert_eq!(by(Filter { code: text("REFUSED"), ..all.clone() }).await, 2);
    assert_eq!(by(Filter { kind: text("promise.*"), ..all.clone() }).await, 10);
    assert_eq!(by(Filter { key: text("k"), stand: Some(Stand::Done), ..all.clone() }).await, 4);
    assert_eq!(by(Filter { id: Some("no uuid".into()), ..all.clone() }).await, 0);
    assert_eq!(by(Filter { limit: 4, after: Some(8), ..all.clone() }).await, 2);
    let id = table.list(&all).await.unwrap()[4].id.clone();
    let story = table.show(&id).await.unwrap().unwrap();
    assert_eq!((story.message.payload.as_ref(), story.entries[0].stand), (&b"4"[..], Stand::Waiting));
}

#[tokio::test]
async fn tables_by_pattern_are_each_owned_once() {
    let Some(tables) = Tables::new(draft).await else { return };
    write(&tables, &[message("1", "k")]).await;
    let pattern = Draft { table: text("Outbox_*"), ..draft("c") };
    let both = Table::connect(tables.database.url(), checked(&pattern)).await.unwrap();
    assert_eq!(both.layouts().count(), 2);
    let (one, two) = (both.sources(&Reading::default()), both.sources(&Reading::default()));
    assert_eq!((one.len(), two.len()), (2, 2));
    let mut came = 0;
    for source in one.iter().chain(&two) {
        came += source.claim(10).await.unwrap().messages.len();
    }
    assert_eq!(came, 1);
}

#[tokio::test]
async fn a_pooler_that_would_break_the_lock_is_noticed_and_told() {
    let Some(tables) = Tables::new(draft).await else { return };
    let Some(server) = testbed::postgres().await else { return };
    let Some(pooler) = testbed::available(testbed::PgBouncer::start(server).await) else { return };
    let url = pooler.url(tables.database.name());
    write(&tables, &[message("1", "k")]).await;
    let table = Table::connect(&url, checked(&draft("c"))).await.unwrap();
    let error = source(&table).claim(10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(
        error.chain().contains("a pooler") && error.chain().contains("order = \"none\""),
        "{}",
        error.chain()
    );
    // Without a lock there is nothing that a pooler could break.
    let shared = table.sources(&Reading { ordered: false, holds: false, ..Reading::default() }).remove(0);
    let claim = shared.claim(10).await.unwrap();
    assert_eq!(payloads(&claim.messages), ["1"]);
    shared.settle(&claim, &[Verdict::Done]).await.unwrap();
    assert!(shared.claim(10).await.unwrap().messages.is_empty());
}

#[tokio::test]
async fn a_row_that_a_person_has_locked_keeps_back_its_key_and_no_other() {
    for mapping in [draft as fn(&str) -> Draft, stamped] {
        let Some(tables) = Tables::new(mapping).await else { return };
        write(&tables, &[message("1", "k"), message("2", "k"), message("x", "other")]).await;
        let mut person = tables.pool.begin().await.unwrap();
        sqlx::query(r#"select 1 from "Outbox_c" where "Body" = '1' for update"#)
            .execute(&mut *person)
            .await
            .unwrap();
        let source = source(&tables.tables[0]);
        let claim = source.claim(10).await.unwrap();
        assert_eq!(payloads(&claim.messages), ["x"], "2 must not overtake 1");
        source.settle(&claim, &[Verdict::Done]).await.unwrap();
        person.rollback().await.unwrap();
        assert_eq!(payloads(&source.claim(10).await.unwrap().messages), ["1", "2"]);
    }
}

#[tokio::test]
async fn a_later_row_that_is_no_message_does_not_lock_out_an_earlier_one() {
    let Some(tables) = Tables::new(draft).await else { return };
    write(&tables, &[message("1", "k"), message("2", "k")]).await;
    run(&tables.pool, r#"update "Outbox_c" set "Body" = null where "Body" = '2'"#).await;
    let source = source(&tables.tables[0]);
    for _ in 0..2 {
        let claim = source.claim(10).await.unwrap();
        assert_eq!(payloads(&claim.messages), ["1"], "an outage lets it come again");
        source.settle(&claim, &[Verdict::Released]).await.unwrap();
    }
    let claim = source.claim(10).await.unwrap();
    source.settle(&claim, &[Verdict::Done]).await.unwrap();
    assert!(source.claim(10).await.unwrap().messages.is_empty());
    assert_eq!(number(&tables.pool, r#"select count(*) from "Outbox_c" where "State" = 'dead'"#).await, 1);
}

#[tokio::test]
async fn a_repair_leaves_alone_what_is_on_its_way() {
    let Some(tables) = Tables::new(stamped).await else { return };
    write(&tables, &[message("1", "k")]).await;
    run(&tables.pool, r#"update "Outbox_c" set "Attempts" = 2"#).await;
    let (table, source) = (&tables.tables[0], source(&tables.tables[0]));
    let claim = source.claim(10).await.unwrap();
    for repair in [Repair::Retry, Repair::Skip] {
        assert_eq!(table.repair(&Filter::default(), repair, false).await.unwrap(), 0, "it is stamped");
    }
    source.settle(&claim, &[Verdict::Done]).await.expect("it is still ours");
}

#[tokio::test]
async fn what_a_person_let_go_is_dead_no_more_where_the_mark_of_its_failure_stays() {
    let mapping = |name: &str| Draft {
        pending: text("SentAt IS NULL AND ClaimedAt IS NULL"),
        done: text("SentAt = now"),
        dead: text("ClaimedAt = now"),
        ..draft(name)
    };
    let Some(tables) = Tables::new(mapping).await else { return };
    write(&tables, &[message("1", "k"), message("2", "k")]).await;
    let (table, source) = (&tables.tables[0], source(&tables.tables[0]));
    let claim = source.claim(1).await.unwrap();
    source.settle(&claim, &[dead()]).await.unwrap();
    assert_eq!(table.repair(&Filter::default(), Repair::Skip, false).await.unwrap(), 1);
    assert_eq!(table.status().await.unwrap()[0].dead, 0);
    source.close().await.unwrap();
    assert_eq!(payloads(&source.claim(10).await.unwrap().messages), ["2"]);
}

#[tokio::test]
async fn a_time_without_end_and_a_row_for_later_stop_nobody() {
    let mapping = |name: &str| Draft { due: text("ClaimedAt"), ..draft(name) };
    let Some(tables) = Tables::new(mapping).await else { return };
    write(&tables, &[message("1", "a"), message("2", "b"), message("3", "b")]).await;
    run(
        &tables.pool,
        r#"update "Outbox_c" set "ClaimedAt" = 'infinity', "Attempts" = 1 where "Body" = '1';
           update "Outbox_c" set "ClaimedAt" = now() + interval '1 day' where "Body" = '2'"#,
    )
    .await;
    let claim = source(&tables.tables[0]).claim(10).await.unwrap();
    assert_eq!(payloads(&claim.messages), ["3"], "2 is meant for tomorrow, and has not failed");
}

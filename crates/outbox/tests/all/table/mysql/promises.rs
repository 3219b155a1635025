//! What a mapped table promises besides the suite, in MariaDB.

use std::sync::Arc;
use std::time::Duration;

use outbox::admin::{Admin, Filter, Repair, Stand};
use outbox::mysql::Table;
use outbox::policy::Verdict;
use outbox::table::{Draft, Reading};
use outbox::{Cause, ErrorKind, Message, Source, code};
use sqlx::{AssertSqlSafe, MySqlPool};

use super::fixture::{Tables, checked, database, draft, insert, stamped, text};

async fn run(pool: &MySqlPool, sql: &str) {
    let done = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(pool).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

async fn number(pool: &MySqlPool, sql: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(pool).await.unwrap()
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

#[tokio::test]
async fn every_type_of_id_and_payload_and_mark_is_understood() {
    const UUID: &str = "00000000-0000-7000-8000-00000000000";
    let ids = [
        ("char(36)", format!("'{UUID}N'"), format!("{UUID}1")),
        ("varchar(40) character set latin1", "'id N'".to_owned(), "id 1".to_owned()),
        ("binary(16)", format!("unhex(replace('{UUID}N', '-', ''))"), format!("{UUID}1").replace('-', "")),
        ("uuid", format!("'{UUID}N'"), format!("{UUID}1")),
        ("bigint", "-900719925474099N".to_owned(), "-9007199254740991".to_owned()),
        ("bigint unsigned", "1844674407370955161N".to_owned(), "18446744073709551611".to_owned()),
        ("int auto_increment", "N".to_owned(), "1".to_owned()),
    ];
    let bodies = [
        "json",
        "longtext",
        "blob",
        "varchar(100) character set latin1",
        "longblob",
        "text",
        "mediumtext character set utf8mb3",
    ];
    let marks = [
        ("tinyint(1) not null default 0", "Mark = false", "Mark = true"),
        ("boolean not null default false", "Mark = 0", "Mark = 1"),
        ("datetime", "Mark IS NULL", "Mark = now"),
        ("timestamp(6) null", "Mark IS NULL", "Mark = now()"),
        ("enum('NEW', 'OLD') not null default 'NEW'", "Mark = 'NEW'", "Mark = 'OLD'"),
        ("bit(1) not null default b'0'", "NOT Mark", "Mark = true"),
        ("varchar(9) not null default 'new'", "Mark IN ('new', 'again')", "Mark = 'gone'"),
    ];
    let sent = "{\"a\":  \"é\"}";
    let Some((database, pool)) = database().await else { return };
    for (at, (((id_type, id, first), body), (mark, pending, done))) in
        ids.iter().zip(bodies).zip(marks).enumerate()
    {
        let value = |n: &str| id.replace('N', n);
        run(
            &pool,
            &format!(
                "create table `T{at}` (`Id` {id_type} primary key, `Body` {body}, `Mark` {mark});
                 insert into `T{at}` (`Id`, `Body`) values ({}, '{sent}'), ({}, '{sent}')",
                value("1"),
                value("2")
            ),
        )
        .await;
        let draft = Draft {
            table: Some(format!("T{at}")),
            id: text("Id"),
            kind: text("'thing.happened'"),
            payload: text("Body"),
            header_columns: [("mark".to_owned(), "Mark".to_owned())].into(),
            pending: text(pending),
            done: text(done),
            ..Draft::default()
        };
        let table = Table::connect(database.url(), checked(&draft)).await.unwrap();
        let source = source(&table);
        let claim = source.claim(10).await.unwrap();
        assert_eq!(payloads(&claim.messages), [sent, sent], "{id_type} {body} {mark}");
        let at = claim.messages.iter().position(|message| message.id.as_str() == first);
        let at = at.unwrap_or_else(|| panic!("{id_type}: {first} is not among {:?}", claim.messages));
        let header = claim.messages[at].headers.get("mark").map(String::as_str);
        let default =
            ["0", "", "NEW", "new"].into_iter().find(|default| header.unwrap_or_default() == *default);
        assert!(default.is_some(), "{mark}: {header:?}");
        let verdicts: Vec<_> =
            (0..2).map(|one| if one == at { Verdict::Done } else { Verdict::Released }).collect();
        source.settle(&claim, &verdicts).await.unwrap();
        let again = source.claim(10).await.unwrap();
        assert_eq!(again.messages.len(), 1, "{id_type} {mark}: one is marked, one is not");
        assert_ne!(again.messages[0].id.as_str(), first);
        source.settle(&again, &[Verdict::Done]).await.unwrap();
        assert!(source.claim(10).await.unwrap().messages.is_empty());
        let found = table.show(&first.as_str().into()).await.unwrap().expect(id_type);
        assert_eq!(found.entries[0].stand, Stand::Done);
        source.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_mapping_that_does_not_fit_is_told_in_one_line_with_everything() {
    let Some((database, pool)) = database().await else { return };
    run(
        &pool,
        "create table `Outbox` (`Id` char(36), `Type` varchar(50), `Body` int, `Attempts` text, `At` datetime);
         create table `Old` (`Id` int primary key, `Type` text, `Body` text, `Mark` datetime) engine = MyISAM",
    )
    .await;
    let draft = Draft {
        table: text("Outbox"),
        id: text("Id"),
        kind: text("type"),
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
        "table 'Outbox' has no index that begins with 'Id'",
        "type: table 'Outbox' has no column 'type'; it has 'Type'",
        "payload: column 'Body' of table 'Outbox' is int",
        "attempts: column 'Attempts' of table 'Outbox' is text",
        "there is no table 'Processed'",
    ] {
        assert!(told.contains(part), "{part} is not in: {told}");
    }
    assert!(!told.contains('\n'));
    let plain =
        Draft { attempts: None, processed_table: None, processed_id: None, kind: text("Type"), ..draft };
    let plain = Draft { pending: text("Mark IS NULL"), done: text("Mark = now"), ..plain };
    for (table, what) in [
        ("Outbax", "there is no table 'Outbax'"),
        ("Outbax_*", "there is no table 'Outbax_*'"),
        ("Old", "table 'Old' is MyISAM, which locks no single rows"),
    ] {
        let draft = Draft { table: text(table), ..plain.clone() };
        let error = Table::connect(database.url(), checked(&draft)).await.unwrap_err();
        assert!(error.chain().contains(what), "{}", error.chain());
    }
}

#[tokio::test]
async fn what_is_wrong_with_the_connection_is_told_by_its_kind() {
    let Some((database, pool)) = database().await else { return };
    let name = database.url().rsplit('/').next().unwrap().to_owned();
    run(
        &pool,
        &format!(
            "create table `Outbox_c` (`Id` int primary key);
             create user if not exists 'reader_{name}'@'127.0.0.1' identified by 'secret'"
        ),
    )
    .await;
    let kind = |url: String| async move { Table::connect(&url, checked(&draft("c"))).await.unwrap_err() };
    let other = |user: &str| database.url().replace("root@", &format!("{user}@"));
    let error = kind(other(&format!("reader_{name}:wrong"))).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{}", error.chain());
    assert!(!error.chain().contains("wrong"), "{}", error.chain());
    let error = kind(database.url().replace(&name, "no_such_database")).await;
    assert_eq!(error.kind(), ErrorKind::Config, "{}", error.chain());
    let error = kind("mysql://root@127.0.0.1:1/x".to_owned()).await;
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{}", error.chain());
}

#[tokio::test]
async fn a_column_that_is_dropped_while_running_ends_the_source_before_anything_is_sent() {
    for column in ["Body", "Error", "Attempts"] {
        let Some(tables) = Tables::new(draft).await else { return };
        write(&tables, &[message("1", "k")]).await;
        let source = source(&tables.tables[0]);
        source.settle(&source.claim(10).await.unwrap(), &[Verdict::Done]).await.unwrap();
        write(&tables, &[message("2", "k")]).await;
        run(&tables.pool, &format!("alter table `Outbox_c` drop column `{column}`")).await;
        let error = source.claim(10).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mapping, "{error}");
        assert!(!error.is_temporary() && error.chain().contains(column), "{}", error.chain());
    }
}

#[tokio::test]
async fn a_new_owner_waits_until_nothing_of_the_one_before_is_open() {
    let Some(tables) = Tables::new(draft).await else { return };
    write(&tables, &[message("1", "k"), message("2", "k")]).await;
    let table = &tables.tables[0];
    let old = source(table);
    let claim = old.claim(1).await.unwrap();
    // The session with the lock breaks; the claim lives on, and its message is on its way. It alone has no transaction.
    let holder = "select cast(p.id as signed) from information_schema.processlist p
                  left join information_schema.innodb_trx t on t.trx_mysql_thread_id = p.id
                  where p.db = database() and p.id <> connection_id() and t.trx_id is null";
    let ids: Vec<i64> = sqlx::query_scalar(holder).fetch_all(&tables.pool).await.unwrap();
    for id in &ids {
        run(&tables.pool, &format!("kill {id}")).await;
    }
    let gone = format!(
        "select count(*) from information_schema.processlist where id in ({})",
        ids.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
    );
    while number(&tables.pool, &gone).await > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(table.status().await.unwrap()[0].owner, None, "the lock is free");
    let new = source(table);
    for _ in 0..5 {
        assert!(new.claim(10).await.unwrap().messages.is_empty(), "2 would overtake 1");
    }
    assert_eq!(old.claim(10).await.unwrap_err().kind(), ErrorKind::Lost, "it has noticed");
    old.settle(&claim, &[Verdict::Done]).await.expect("what it has locked it may settle");
    assert_eq!(payloads(&new.claim(10).await.unwrap().messages), ["2"]);
}

#[tokio::test]
async fn an_owner_that_falls_silent_is_succeeded_when_its_lease_is_over() {
    let Some(tables) = Tables::new(draft).await else { return };
    write(&tables, &[message("1", "k")]).await;
    let reading = Reading { lease: Duration::from_secs(1), ..Reading::default() };
    // Its runtime is halted, as a process is by SIGSTOP: no task of it runs any more, and its connections stay open.
    let silent = tables.tables[0].clone();
    let (told, asked) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let halted = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let source = silent.sources(&reading).remove(0);
        let claim = runtime.block_on(source.claim(1)).unwrap();
        told.send(claim.messages.len()).unwrap();
        let _ = ended.recv();
    });
    let claimed = tokio::task::spawn_blocking(move || asked.recv().unwrap()).await.unwrap();
    assert_eq!(claimed, 1);
    let next = source(&tables.tables[0]);
    let begun = std::time::Instant::now();
    let came = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            let claim = next.claim(10).await.unwrap();
            if !claim.messages.is_empty() {
                return claim;
            }
            next.wait(Duration::from_millis(100)).await;
        }
    });
    let claim = came.await.expect("it takes over");
    // The silence that a claim is allowed is its lease and five seconds.
    assert!(begun.elapsed() > Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(payloads(&claim.messages), ["1"]);
    drop(end);
    halted.join().unwrap();
}

#[tokio::test]
async fn relays_with_other_lanes_do_not_read_at_the_same_time() {
    let Some(tables) = Tables::new(draft).await else { return };
    write(&tables, &[message("1", "k")]).await;
    let lanes = |lanes| tables.tables[0].sources(&Reading { lanes, ..Reading::default() });
    let (four, three) = (lanes(4), lanes(3));
    for source in &four {
        source.claim(10).await.unwrap();
    }
    let error = three[0].claim(10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.chain().contains("into 4 lanes, this one into 3"), "{}", error.chain());
    for source in &four {
        source.close().await.unwrap();
    }
    let mut came = 0;
    for source in &three {
        came += source.claim(10).await.unwrap().messages.len();
    }
    assert_eq!(came, 1);
}

#[tokio::test]
async fn a_dead_message_holds_its_key_until_a_person_decides_and_over_a_change_of_owner() {
    for (mapping, repair, then) in
        [(draft as fn(&str) -> Draft, Repair::Retry, vec!["1", "2"]), (stamped, Repair::Skip, vec!["2"])]
    {
        let Some(tables) = Tables::new(mapping).await else { return };
        // Another case is another key.
        write(&tables, &[message("1", "k"), message("2", "k"), message("x", "K")]).await;
        let table = &tables.tables[0];
        let old = source(table);
        let claim = old.claim(1).await.unwrap();
        let cause = Cause::new(code::TOO_LARGE, "too large: \u{1f600}");
        old.settle(&claim, &[Verdict::Dead { attempts: 1, cause, holds: true }]).await.unwrap();
        old.close().await.unwrap();
        let new = source(table);
        let claim = new.claim(10).await.unwrap();
        assert_eq!(payloads(&claim.messages), ["x"], "k is held, others are not");
        new.settle(&claim, &[Verdict::Done]).await.unwrap();
        let dead = Filter { stand: Some(Stand::Dead), key: text("k"), ..Filter::default() };
        assert_eq!(table.list(&Filter { key: text("K"), ..dead.clone() }).await.unwrap().len(), 0);
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
async fn a4_what_was_published_before_is_marked_and_not_sent_whatever_the_type_of_the_other_id() {
    for id in [
        "char(36)",
        "varchar(50) character set latin1",
        "char(36) character set utf8mb4 collate utf8mb4_bin",
        "binary(16)",
        "uuid",
    ] {
        let Some(tables) = Tables::new(draft).await else { return };
        run(
            &tables.pool,
            &format!("create table `Processed` (`EventId` {id} primary key, `At` datetime not null)"),
        )
        .await;
        let draft = Draft {
            processed_table: text("Processed"),
            processed_id: text("EventId"),
            processed_at: text("At"),
            ..draft("c")
        };
        let table = Table::connect(tables.database.url(), checked(&draft)).await.unwrap();
        write(&tables, &[message("1", ""), message("2", ""), message("3", "")]).await;
        let value = if id == "binary(16)" { "unhex(replace(`Id`, '-', ''))" } else { "`Id`" };
        run(
            &tables.pool,
            &format!(
                "insert into `Processed` select {value}, utc_timestamp() from `Outbox_c` where `Body` in ('1', '3')"
            ),
        )
        .await;
        let source = source(&table);
        let claim = source.claim(10).await.unwrap();
        assert_eq!((payloads(&claim.messages), claim.skipped()), (vec!["2"], 2), "{id}");
        source.settle(&claim, &[Verdict::Done]).await.unwrap();
        assert_eq!(number(&tables.pool, "select count(*) from `Outbox_c` where `SentAt` is null").await, 0);
        assert_eq!(number(&tables.pool, "select count(*) from `Processed`").await, 3, "{id}");
    }
}

#[tokio::test]
async fn a_key_inside_of_json_and_rows_without_it() {
    let Some((database, pool)) = database().await else { return };
    run(
        &pool,
        r#"create table `T` (`Id` int primary key, `Body` text, `At` datetime);
           insert into `T` (`Id`, `Body`) values
               (1, '{"order": {"id": "a"}}'), (2, '{"order": {"id": 7}}'), (3, '{"order": {"id": null}}'), (4, 'no json')"#,
    )
    .await;
    let draft = Draft {
        table: text("T"),
        id: text("Id"),
        kind: text("'t'"),
        key: text("Body->order->>id"),
        payload: text("Body"),
        pending: text("At IS NULL"),
        done: text("At = now"),
        ..Draft::default()
    };
    for lanes in [1, 3] {
        let table = Table::connect(database.url(), checked(&draft)).await.unwrap();
        let mut keys = Vec::new();
        for source in table.sources(&Reading { lanes, ..Reading::default() }) {
            let claim = source.claim(10).await.unwrap();
            keys.extend(claim.messages.iter().map(|message| (message.id.to_string(), message.key.clone())));
            source.close().await.unwrap();
        }
        keys.sort();
        let keys: Vec<_> = keys.iter().map(|(id, key)| (id.as_str(), key.as_deref())).collect();
        assert_eq!(keys, [("1", Some("a")), ("2", Some("7")), ("3", None), ("4", None)]);
    }
}

#[tokio::test]
async fn a10_d6_the_questions_of_every_day_are_answered_and_old_rows_are_removed() {
    let Some(tables) = Tables::new(draft).await else { return };
    write(&tables, &(0..10).map(|n| message(&n.to_string(), "k")).collect::<Vec<_>>()).await;
    run(
        &tables.pool,
        "update `Outbox_c` set `State` = 'sent', `SentAt` = utc_timestamp(6) - interval 2 minute where `Seq` in (1, 3);
         update `Outbox_c` set `State` = 'sent', `SentAt` = utc_timestamp(6) - interval 2 hour where `Seq` = 5;
         update `Outbox_c` set `State` = 'sent', `SentAt` = utc_timestamp(6) where `Seq` = 7;
         update `Outbox_c` set `Attempts` = 3, `Error` = 'REFUSED: no' where `Seq` in (2, 4);
         update `Outbox_c` set `State` = 'dead' where `Seq` = 6",
    )
    .await;
    let seqs: Vec<i64> = sqlx::query_scalar("select `Seq` from `Outbox_c` order by `Seq`")
        .fetch_all(&tables.pool)
        .await
        .unwrap();
    assert_eq!(seqs[..7], [1, 2, 3, 4, 5, 6, 7]);
    let table = tables.tables[0].clone().pipe("relay");
    let activity = table.activity().await.unwrap().expect("it has a time of done");
    assert_eq!((activity.tried_often, activity.done_last_hour), (2, 3));
    let status = table.status().await.unwrap().remove(0);
    assert_eq!((status.pending, status.waiting, status.dead, status.delivered), (3, 2, 1, None));
    assert_eq!((status.cursor.as_str(), status.owner), ("relay", None));
    assert!(status.lag_seconds.is_some_and(|lag| lag < 600.0), "{:?}", status.lag_seconds);
    let source = source(&table);
    source.claim(1).await.unwrap();
    let owner = table.status().await.unwrap().remove(0).owner.unwrap_or_default();
    assert!(owner.starts_with("root@127.0.0.1"), "{owner}");
    let by = |filter: Filter| {
        let table = table.clone();
        async move { table.list(&filter).await.unwrap().len() }
    };
    let all = Filter::default();
    assert_eq!(by(Filter { code: text("REFUSED"), ..all.clone() }).await, 2);
    assert_eq!(by(Filter { kind: text("promise.*"), ..all.clone() }).await, 10);
    assert_eq!(by(Filter { key: text("k"), stand: Some(Stand::Done), ..all.clone() }).await, 4);
    assert_eq!(by(Filter { limit: 4, after: Some(8), ..all.clone() }).await, 2);
    source.close().await.unwrap();
    let age = Duration::from_secs(60);
    assert_eq!(table.purge(age, 2, true).await.unwrap(), 2, "a step at most");
    assert_eq!(table.purge(age, 2, false).await.unwrap(), 2);
    assert_eq!(table.purge(age, 2, false).await.unwrap(), 1);
    assert_eq!(table.purge(age, 2, false).await.unwrap(), 0);
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
async fn the_grants_of_the_reference_suffice_and_what_is_missing_is_denied() {
    let Some(tables) = Tables::new(draft).await else { return };
    let name = tables.database.url().rsplit('/').next().unwrap().to_owned();
    // A name has 32 characters at most in MySQL.
    let user = &name[name.len() - 20..];
    run(
        &tables.pool,
        &format!(
            "create table `Processed` (`EventId` char(36) primary key, `At` datetime not null);
             create user '{user}'@'127.0.0.1';
             grant select, update on `{name}`.`Outbox_c` to '{user}'@'127.0.0.1';
             grant select, insert, update on `{name}`.`Processed` to '{user}'@'127.0.0.1'"
        ),
    )
    .await;
    let draft = Draft { processed_table: text("Processed"), processed_id: text("EventId"), ..draft("c") };
    let draft = Draft { processed_at: text("At"), ..draft };
    let url = tables.database.url().replace("root@", &format!("{user}@"));
    let table = Table::connect(&url, checked(&draft)).await.unwrap();
    write(&tables, &[message("1", "k"), message("2", "k")]).await;
    let source = source(&table);
    let claim = source.claim(1).await.unwrap();
    source.settle(&claim, &[Verdict::Done]).await.unwrap();
    assert_eq!(table.status().await.unwrap()[0].pending, 1);
    run(&tables.pool, &format!("revoke insert on `{name}`.`Processed` from '{user}'@'127.0.0.1'")).await;
    let claim = source.claim(1).await.unwrap();
    let error = source.settle(&claim, &[Verdict::Done]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{}", error.chain());
    assert!(error.chain().contains("Processed"), "{}", error.chain());
}

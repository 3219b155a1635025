//! Whether the server keeps the tables of the log in good shape: vacuum, what holds it up, and the indexes of the claim.
//! What was read is judged by the functions at the end, which ask nobody.

use sqlx::postgres::{PgListener, PgRow};
use sqlx::{Connection, PgConnection, Row};

use super::error::classify;
use super::examine::look;
use super::{Outbox, connect};
use crate::error::Result;
use crate::finding::Finding;

/// The tables of the log that change, with whether anybody vacuums them.
const TABLES: &str = "
    select c.relname::text as name, s.n_live_tup as live, s.n_dead_tup as dead,
           current_setting('autovacuum')::boolean as enabled,
           coalesce(c.reloptions && array['autovacuum_enabled=false', 'autovacuum_enabled=off',
                                          'autovacuum_enabled=0', 'autovacuum_enabled=no'], false) as excepted,
           extract(epoch from clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum))::float8 as ago
    from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_stat_all_tables s on s.relid = c.oid
    where n.nspname = 'outbox' and c.relname in ('messages', 'cursors', 'parked')
    order by c.relname";

/// What keeps old rows from being removed, besides the transactions that the look at the server tells of: who vanished
/// between the two phases of a commit, and replicas that no longer fetch.
const HOLDERS: &str = "
    select 'prepared' as kind, gid::text as name, extract(epoch from clock_timestamp() - prepared)::float8 as seconds,
           age(transaction)::bigint as transactions
    from pg_prepared_xacts where database = current_database()
    union all
    select 'slot', slot_name::text, null, age(coalesce(xmin, catalog_xmin))::bigint
    from pg_replication_slots where xmin is not null and not active
    order by transactions desc limit 20";

/// The indexes by which messages are claimed, as the first migration makes them.
const INDEXES: [(&str, &str); 5] = [
    ("messages_pkey", "ALTER TABLE outbox.messages ADD PRIMARY KEY (seq);"),
    ("messages_xid", "CREATE INDEX CONCURRENTLY messages_xid ON outbox.messages (xid);"),
    (
        "parked_due",
        "CREATE INDEX CONCURRENTLY parked_due ON outbox.parked (cursor, lane, due) WHERE state = 'waiting';",
    ),
    (
        "parked_key",
        "CREATE INDEX CONCURRENTLY parked_key ON outbox.parked (cursor, key, seq) WHERE key IS NOT NULL;",
    ),
    ("parked_seq", "CREATE INDEX CONCURRENTLY parked_seq ON outbox.parked (seq);"),
];

/// Those that are there and can be used.
const THERE: &str = "
    select c.relname::text as name
    from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'outbox' and i.indisvalid";

/// How the newest messages would be read, as every claim does.
const CLAIM: &str = "
    explain select * from outbox.messages
    where seq > coalesce((select min(pos) from outbox.cursors), 0) and pg_visible_in_snapshot(xid, pg_current_snapshot())
    order by seq limit 100";

/// How many messages there are, as the planner believes; below 0 if it does not know.
const SIZE: &str = "select reltuples::float8 as rows from pg_class where oid = 'outbox.messages'::regclass";

/// So many dead rows are no trouble yet.
const MANY_DEAD: i64 = 10_000;

/// With fewer rows than this it does not matter which plan is taken.
const MANY: f64 = 5_000.0;

/// So long something may be prepared.
const PREPARED: f64 = 300.0;

/// So many transactions an idle slot may lag.
const BEHIND: i64 = 1_000_000;

/// So long a notification may take.
const HEARD: std::time::Duration = std::time::Duration::from_secs(2);

/// Looks at the tables of a log that are there.
pub(super) async fn examine(conn: &mut PgConnection) -> Vec<Finding> {
    match read(conn).await {
        Ok(findings) => findings,
        Err(error) => vec![Finding::error("upkeep", &error)],
    }
}

async fn read(conn: &mut PgConnection) -> Result<Vec<Finding>> {
    let failed = |error| classify(error, "looking at the upkeep of the log");
    let mut tx = look(conn).await.map_err(failed)?;
    let ask = |sql: &'static str| sqlx::query(sql).persistent(false);
    let tables = ask(TABLES).fetch_all(&mut *tx).await.map_err(failed)?;
    let holders = ask(HOLDERS).fetch_all(&mut *tx).await.map_err(failed)?;
    let there = ask(THERE).fetch_all(&mut *tx).await.map_err(failed)?;
    let rows: f64 = ask(SIZE).fetch_one(&mut *tx).await.map_err(failed)?.get("rows");
    let plan = ask(CLAIM).fetch_all(&mut *tx).await.map_err(failed)?;
    tx.rollback().await.map_err(failed)?;
    let tables: Vec<Table> = tables.iter().map(Table::of).collect();
    let holders: Vec<Holder> = holders.iter().map(Holder::of).collect();
    let there: Vec<String> = there.iter().map(|row| row.get("name")).collect();
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    Ok(vec![vacuum(&tables), snapshots(&holders), indexes(&there, rows, &plan.join("\n"))])
}

impl Outbox {
    /// Whether writers that notify are heard: a notification is sent and waited for. Behind a pooler it may never come.
    pub async fn examine_notify(url: &str) -> Finding {
        const WHAT: &str = "notify";
        match hear(url).await {
            Ok(true) => Finding::ok(WHAT, "a notification is heard"),
            Ok(false) => Finding::warning(
                WHAT,
                "a notification is not heard: writers wake nobody, and polling does the work",
            )
            .fix("connect to PostgreSQL itself (or a pool in session mode), or set notify = false"),
            Err(error) => Finding::error(WHAT, &error),
        }
    }
}

async fn hear(url: &str) -> Result<bool> {
    let failed = |error| classify(error, "waiting for a notification");
    let channel = format!("outbox_doctor_{}", uuid::Uuid::now_v7().simple());
    let mut listener = PgListener::connect(url).await.map_err(failed)?;
    // Who gets another session for every transaction is told that it listens, and hears nothing.
    listener.listen(&channel).await.map_err(failed)?;
    let options = connect::options(url)?;
    let mut conn = connect::connection(&options).await?;
    let told = sqlx::query("select pg_notify($1, '')").bind(&channel).persistent(false);
    // Whoever is put into the session that listens gets the notification instead of an answer.
    if told.execute(&mut conn).await.is_err() {
        return Ok(false);
    }
    let heard = tokio::time::timeout(HEARD, listener.recv()).await;
    let _ = conn.close().await;
    Ok(matches!(heard, Ok(Ok(_))))
}

/// A table of the log.
struct Table {
    name: String,
    live: i64,
    dead: i64,
    /// Whether the server vacuums by itself.
    enabled: bool,
    /// Whether this table is excepted from that.
    excepted: bool,
    /// Seconds since it was vacuumed.
    ago: Option<f64>,
}

impl Table {
    fn of(row: &PgRow) -> Self {
        Self {
            name: row.get("name"),
            live: row.get("live"),
            dead: row.get("dead"),
            enabled: row.get("enabled"),
            excepted: row.get("excepted"),
            ago: row.get("ago"),
        }
    }
}

/// What keeps old rows from being removed.
struct Holder {
    prepared: bool,
    name: String,
    seconds: Option<f64>,
    transactions: i64,
}

impl Holder {
    fn of(row: &PgRow) -> Self {
        Self {
            prepared: row.get::<String, _>("kind") == "prepared",
            name: row.get("name"),
            seconds: row.get("seconds"),
            transactions: row.get("transactions"),
        }
    }
}

fn vacuum(tables: &[Table]) -> Finding {
    const WHAT: &str = "vacuum";
    if tables.iter().any(|table| !table.enabled) {
        let evidence =
            "autovacuum is off: rows that are gone stay in the tables, and every claim reads past them";
        return Finding::warning(WHAT, evidence)
            .fix("ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf();");
    }
    if let Some(table) = tables.iter().find(|table| table.excepted) {
        let name = &table.name;
        return Finding::warning(WHAT, format!("outbox.{name} is excepted from autovacuum"))
            .fix(format!("ALTER TABLE outbox.{name} RESET (autovacuum_enabled);"));
    }
    let is_bloated = |table: &&Table| table.dead > MANY_DEAD && table.dead > table.live;
    if let Some(table) = tables.iter().find(is_bloated) {
        let Table { name, live, dead, .. } = table;
        let last = table.ago.map_or("it was never vacuumed".to_owned(), |ago| {
            format!("it was vacuumed {:.0} minutes ago", ago / 60.0)
        });
        let evidence = format!("outbox.{name} has {dead} dead rows and {live} others; {last}");
        return Finding::warning(WHAT, evidence).fix(format!("VACUUM (ANALYZE) outbox.{name};"));
    }
    let dead: i64 = tables.iter().map(|table| table.dead).sum();
    Finding::ok(WHAT, format!("autovacuum is on; {dead} dead rows"))
}

fn snapshots(holders: &[Holder]) -> Finding {
    const WHAT: &str = "old snapshots";
    let is_prepared = |one: &&Holder| one.prepared && one.seconds.unwrap_or_default() > PREPARED;
    if let Some(one) = holders.iter().find(is_prepared) {
        let minutes = one.seconds.unwrap_or_default() / 60.0;
        let evidence = format!(
            "transaction '{}' is prepared for {minutes:.0} minutes: what it wrote is not seen, and nothing is vacuumed",
            one.name
        );
        let name = one.name.replace('\'', "''");
        return Finding::warning(WHAT, evidence)
            .fix(format!("COMMIT PREPARED '{name}'; or ROLLBACK PREPARED '{name}';"));
    }
    if let Some(one) = holders.iter().find(|one| !one.prepared && one.transactions > BEHIND) {
        let evidence = format!(
            "nobody reads replication slot '{}', and it holds {} transactions: nothing is vacuumed",
            one.name, one.transactions
        );
        let name = one.name.replace('\'', "''");
        return Finding::warning(WHAT, evidence)
            .fix(format!("start its replica, or SELECT pg_drop_replication_slot('{name}');"));
    }
    Finding::ok(WHAT, "no prepared transaction and no idle replication slot holds up vacuum")
}

fn indexes(there: &[String], rows: f64, plan: &str) -> Finding {
    const WHAT: &str = "claim index";
    let missing: Vec<_> = INDEXES.iter().filter(|(name, _)| !there.iter().any(|one| one == name)).collect();
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|(name, _)| *name).collect();
        let fix: Vec<_> = missing.iter().map(|(_, create)| *create).collect();
        let evidence = format!("missing, or not valid: {}; claims read more and more rows", names.join(", "));
        return Finding::warning(WHAT, evidence).fix(fix.join(" "));
    }
    if rows > MANY && plan.contains("Seq Scan on messages") {
        let evidence = format!("an index could serve the claim (about {rows:.0} rows), but is not used");
        return Finding::warning(WHAT, evidence).fix("ANALYZE outbox.messages;");
    }
    Finding::ok(WHAT, "the indexes that serve the claim are there")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Level;

    fn table(live: i64, dead: i64, enabled: bool, excepted: bool) -> Table {
        Table { name: "parked".to_owned(), live, dead, enabled, excepted, ago: None }
    }

    #[test]
    fn a_table_that_nobody_vacuums_is_a_warning_with_the_statement() {
        assert_eq!(vacuum(&[table(5, 9_999, true, false)]).level, Level::Ok);
        assert_eq!(vacuum(&[table(50_000, 20_000, true, false)]).level, Level::Ok, "most of it lives");
        for (found, fix) in [
            (vacuum(&[table(5, 20_000, true, false)]), "VACUUM (ANALYZE) outbox.parked;"),
            (vacuum(&[table(5, 0, true, true)]), "ALTER TABLE outbox.parked RESET (autovacuum_enabled);"),
            (
                vacuum(&[table(5, 0, false, false)]),
                "ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf();",
            ),
        ] {
            assert_eq!((found.level, found.fix.as_deref()), (Level::Warning, Some(fix)));
        }
    }

    #[test]
    fn what_holds_up_vacuum_is_named() {
        let holder = |prepared, seconds, transactions| Holder {
            prepared,
            name: "it's".to_owned(),
            seconds,
            transactions,
        };
        assert_eq!(snapshots(&[holder(true, Some(299.0), 5), holder(false, None, 5)]).level, Level::Ok);
        let prepared = snapshots(&[holder(true, Some(600.0), 5)]);
        assert!(prepared.fix.is_some_and(|fix| fix.contains("ROLLBACK PREPARED 'it''s';")));
        let slot = snapshots(&[holder(false, None, 2_000_000)]);
        assert!(slot.fix.is_some_and(|fix| fix.contains("pg_drop_replication_slot('it''s')")));
    }

    #[test]
    fn an_index_that_is_missing_or_not_used_is_told() {
        let all: Vec<String> = INDEXES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(indexes(&all, 1.0, "Seq Scan on messages").level, Level::Ok);
        assert_eq!(
            indexes(&all, 6_000.0, "Seq Scan on messages").fix.as_deref(),
            Some("ANALYZE outbox.messages;")
        );
        assert_eq!(indexes(&all, 6_000.0, "Index Scan using messages_pkey on messages").level, Level::Ok);
        let one = indexes(&all[..4], 1.0, "");
        assert_eq!(one.fix.as_deref(), Some(INDEXES[4].1));
    }
}

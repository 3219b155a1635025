//! PostgreSQL: the outbox where it always is, everything else in a schema of its own.

use std::ops::Range;
use std::time::Duration;

use anyhow::Context as _;
use outbox::admin::Admin;
use outbox::postgres::Outbox;
use outbox::{Failure, Message, Pipe};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool, Row};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::super::load::{Load, TYPE};
use super::super::measure::Book;
use super::super::processes::Server;
use super::super::relay::PIPE;
use super::{Act, BATCH, message};
use crate::cli::args::BenchArgs;
use crate::connection::Connection;
use crate::emptiness;
use crate::secret::SecretUrl;
use crate::trouble::Trouble;

/// What an application and a handler write to.
const TABLES: &str = "
    create schema outboxd_bench;
    create table outboxd_bench.orders (id bigserial primary key, note text not null);
    create table outboxd_bench.plain (seq bigserial primary key, id uuid not null unique, type text not null, key text,
        payload bytea not null, content_type text not null, headers jsonb not null, occurred_at timestamptz not null);
    create table outboxd_bench.effects (seq bigserial, id text not null, n bigint not null)";

const REMOVE: &str = "drop schema if exists outbox cascade; drop schema if exists outboxd_bench cascade";

/// What the server has counted.
const BOOK: &str = "
    select coalesce(sum(n_tup_upd + n_tup_del), 0)::float8, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8
    from pg_stat_user_tables";

/// Messages that are written by one statement.
const STEP: u64 = 100_000;

/// A database.
pub(crate) struct Postgres {
    outbox: Outbox,
    url: SecretUrl,
    pub(super) server: Option<Server>,
    /// An empty outbox was there before us.
    had_outbox: bool,
}

/// The outbox in it.
pub(crate) struct Log {
    outbox: Outbox,
    pub(super) url: SecretUrl,
}

/// A session of an application.
pub(crate) struct Writer {
    outbox: Outbox,
    connection: PgConnection,
}

impl Postgres {
    /// Takes the database, if it is empty or may be destroyed; writers wake readers if the source says so.
    pub(crate) async fn open(
        connection: &Connection,
        server: Option<Server>,
        args: &BenchArgs,
    ) -> anyhow::Result<Self> {
        let outbox = Outbox::connect(connection.url.reveal())
            .await
            .map_err(|error| Trouble::at_database("cannot measure", connection, &error))?
            .notify(notifies(&args.source));
        let found = emptiness::in_postgres(&outbox).await.context("cannot look at the database")?;
        if let Some(found) = found.as_ref().filter(|_| !args.yes_destroy) {
            let what =
                format!("the database of connection '{}' is not empty: there is {found}", connection.name);
            let help = "name an empty database, or add --yes-destroy, which drops the schemas outbox and \
                        outboxd_bench in this one";
            return Err(Trouble::usage(what, help).into());
        }
        let exists = "select to_regclass('outbox.messages') is not null";
        let had_outbox: bool = sqlx::query(exists).fetch_one(outbox.pool()).await?.get(0);
        let had_outbox = had_outbox && found.is_none();
        Ok(Self { outbox, url: connection.url.clone(), server, had_outbox })
    }

    pub(super) async fn version(&self) -> anyhow::Result<String> {
        let version: String =
            sqlx::query("select current_setting('server_version')").fetch_one(self.pool()).await?.get(0);
        Ok(format!("PostgreSQL {version}"))
    }

    pub(super) fn pool(&self) -> &PgPool {
        self.outbox.pool()
    }

    pub(super) async fn fresh(&self) -> anyhow::Result<Log> {
        sqlx::raw_sql(REMOVE).execute(self.pool()).await?;
        self.outbox.migrate().await?;
        sqlx::raw_sql(TABLES).execute(self.pool()).await?;
        Ok(Log { outbox: self.outbox.clone(), url: self.url.clone() })
    }

    pub(super) async fn book(&self) -> Option<Book> {
        let row = sqlx::query(BOOK).fetch_one(self.pool()).await.ok()?;
        Some(Book { dead_tuples: row.get(0), wal_bytes: row.get(1) })
    }

    pub(super) async fn clean(&self) -> anyhow::Result<()> {
        sqlx::raw_sql(REMOVE).execute(self.pool()).await.context("cannot remove what was made")?;
        if self.had_outbox {
            self.outbox.migrate().await?;
        }
        Ok(())
    }
}

impl Log {
    pub(crate) fn pool(&self) -> &PgPool {
        self.outbox.pool()
    }

    pub(super) async fn fill(&self, load: Load, from: u64) -> anyhow::Result<()> {
        let payload = load.payload_sql(|times| format!("repeat('x', {times})"));
        let insert = format!(
            "insert into outbox.messages (type, key, payload)
             select '{TYPE}', {}, convert_to({payload}, 'UTF8') from generate_series($1, $2 - 1) as n",
            load.key_sql()
        );
        let end = from + load.messages;
        let mut next = from;
        while next < end {
            let until = end.min(next + STEP);
            let insert = sqlx::query(AssertSqlSafe(insert.clone()));
            insert.bind(i64::try_from(next)?).bind(i64::try_from(until)?).execute(self.pool()).await?;
            next = until;
        }
        // As the server does by itself after a while.
        sqlx::raw_sql("analyze outbox.messages").execute(self.pool()).await?;
        Ok(())
    }

    pub(super) async fn delivered(&self) -> anyhow::Result<u64> {
        self.number("select coalesce(sum(delivered), 0)::bigint from outbox.cursors").await
    }

    /// About how many there are, for next to nothing: a number that was given out may not have been used.
    pub(super) async fn effects(&self) -> anyhow::Result<u64> {
        self.number(
            "select case when is_called then last_value else 0 end from outboxd_bench.effects_seq_seq",
        )
        .await
    }

    /// How many there are.
    pub(super) async fn all_effects(&self) -> anyhow::Result<u64> {
        self.number("select count(*) from outboxd_bench.effects").await
    }

    async fn number(&self, query: &'static str) -> anyhow::Result<u64> {
        let number: i64 = sqlx::query(query).fetch_one(self.pool()).await?.get(0);
        Ok(number.unsigned_abs())
    }

    pub(super) async fn two_statements(&self, messages: &[Message]) -> anyhow::Result<()> {
        let mut connection = self.connection().await?;
        for batch in messages.chunks(usize::try_from(BATCH)?) {
            let mut tx = connection.begin().await?;
            for (number, message) in batch.iter().enumerate() {
                sqlx::query("insert into outbox.inbox (consumer, message_id) values ($1, $2)")
                    .bind(PIPE)
                    .bind(message.id.as_str())
                    .execute(&mut *tx)
                    .await?;
                sqlx::query("insert into outboxd_bench.effects (id, n) values ($1, $2)")
                    .bind(message.id.as_str())
                    .bind(i64::try_from(number)?)
                    .execute(&mut *tx)
                    .await?;
            }
            tx.commit().await?;
        }
        Ok(())
    }

    pub(super) async fn function(&self, count: u64) -> anyhow::Result<()> {
        let handler = self.outbox.inbox().handler("function", |mut tx, message: Message| async move {
            sqlx::query("insert into outboxd_bench.effects (id, n) values ($1, $2)")
                .bind(message.id.as_str())
                .bind(i64::try_from(message.payload.len())?)
                .execute(&mut *tx)
                .await?;
            Ok::<(), Failure>(())
        });
        let pipe = Pipe::new(self.outbox.cursor("function"), handler).batch(usize::try_from(BATCH)?);
        let (stats, stop) = (pipe.stats(), CancellationToken::new());
        let running = tokio::spawn(pipe.run(stop.clone()));
        while stats.delivered() < count && !running.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
        Ok(running.await??)
    }

    pub(super) async fn purge(&self) -> anyhow::Result<()> {
        while self.outbox.purge(Duration::ZERO, 10_000, false).await? > 0 {}
        Ok(())
    }

    pub(super) async fn writer(&self) -> anyhow::Result<Writer> {
        Ok(Writer { outbox: self.outbox.clone(), connection: self.connection().await? })
    }

    async fn connection(&self) -> anyhow::Result<PgConnection> {
        Ok(PgConnection::connect_with(&self.pool().connect_options()).await?)
    }
}

impl Writer {
    pub(super) async fn write(&mut self, act: Act, load: Load, number: u64) -> anyhow::Result<()> {
        let mut tx = self.connection.begin().await?;
        if act.has_order() {
            sqlx::query("insert into outboxd_bench.orders (note) values ($1)")
                .bind("an order of somebody, with a few words to it")
                .execute(&mut *tx)
                .await?;
        }
        match act {
            Act::Order => {}
            Act::OrderAndRow => {
                let message = message(load, number);
                sqlx::query(
                    "insert into outboxd_bench.plain (id, type, key, payload, content_type, headers, occurred_at)
                     values ($1, $2, $3, $4, $5, '{}', clock_timestamp())",
                )
                .bind(Uuid::parse_str(message.id.as_str())?)
                .bind(&message.kind)
                .bind(&message.key)
                .bind(&message.payload[..])
                .bind(&message.content_type)
                .execute(&mut *tx)
                .await?;
            }
            Act::Event | Act::OrderAndEvent => {
                self.outbox.enqueue(&mut tx, message(load, number)).await?;
            }
        }
        Ok(tx.commit().await?)
    }

    pub(super) async fn write_many(&mut self, load: Load, numbers: Range<u64>) -> anyhow::Result<()> {
        let mut tx = self.connection.begin().await?;
        for number in numbers {
            self.outbox.enqueue(&mut tx, message(load, number)).await?;
        }
        Ok(tx.commit().await?)
    }
}

/// Whether these lines of a source say that writers wake readers. What is wrong in them the relay tells.
fn notifies(lines: &[String]) -> bool {
    let lines: Result<toml::Table, _> = lines.join("\n").parse();
    lines.is_ok_and(|lines| lines.get("notify").and_then(toml::Value::as_bool) == Some(true))
}

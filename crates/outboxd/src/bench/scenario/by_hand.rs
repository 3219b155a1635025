//! The loops that people write, as two documents have them: ticketflow's worker for RabbitMQ, and the relay job of
//! data-registry for Kafka. Literally, but for their rests between two batches (five seconds, half a second), which would
//! only be a measure of themselves; and with the confirm of every message, without which nothing would be promised.

use std::time::Instant;

use anyhow::Context as _;
use lapin::BasicProperties;
use lapin::options::BasicPublishOptions;
use sqlx::{Connection as _, PgConnection, PgPool, Row};
use uuid::Uuid;

use super::super::Bench;
use super::super::load::Load;
use super::super::measure::{Pace, Role, Run, Watch};
#[cfg(feature = "kafka")]
use super::super::way::Kafka;
use super::super::way::{Rabbit, Way};
use super::arrived;

/// Of so many messages the loop carries one: it is slow, and a part tells its rate.
const PART: u64 = 25;

/// The least that it carries: a batch.
const LEAST: u64 = 50;

const TICKETFLOW: &str = r#"
    drop table if exists outboxd_bench."OutboxMessages", outboxd_bench."ProcessedEvents";
    create table outboxd_bench."OutboxMessages" (
        "Id" uuid primary key, "Type" text not null, "PayloadJson" text not null, "CorrelationId" text not null,
        "OccurredAt" timestamptz not null, "DispatchedAt" timestamptz, "Attempts" integer not null default 0, "Error" text
    );
    create table outboxd_bench."ProcessedEvents" ("EventId" uuid primary key, "ProcessedAt" timestamptz not null);
    create index on outboxd_bench."OutboxMessages" ("OccurredAt") where "DispatchedAt" is null"#;

const FILL_TICKETFLOW: &str = r#"
    insert into outboxd_bench."OutboxMessages" ("Id", "Type", "PayloadJson", "CorrelationId", "OccurredAt")
    select gen_random_uuid(), 'TicketFlow.Domain.Events.TicketCreatedEvent',
           '{"n":' || n || ',"text":"' || repeat('x', $2) || '"}', 'c-' || n,
           now() - interval '1 hour' + n * interval '1 millisecond'
    from generate_series(0, $1 - 1) as n"#;

#[cfg(feature = "kafka")]
const PRISMA: &str = r#"
    drop table if exists outboxd_bench."Outbox";
    create table outboxd_bench."Outbox" (
        "id" text primary key, "topic" text not null, "payload" jsonb not null, "status" text not null default 'PENDING',
        "retries" integer not null default 0, "createdAt" timestamp(3) not null default current_timestamp,
        "processedAt" timestamp(3)
    );
    create index on outboxd_bench."Outbox" ("status", "createdAt")"#;

#[cfg(feature = "kafka")]
const FILL_PRISMA: &str = r#"
    insert into outboxd_bench."Outbox" ("id", "topic", "payload", "createdAt")
    select gen_random_uuid()::text, 'match.created', jsonb_build_object('n', n, 'text', repeat('x', $2)),
           now() - interval '1 hour' + n * interval '1 millisecond'
    from generate_series(0, $1 - 1) as n"#;

/// The loop for this way, on a table of its own; none without PostgreSQL or a broker.
pub(super) async fn by_hand(bench: &Bench<'_>) -> anyhow::Result<Option<Run>> {
    let log = bench.ground.database.fresh().await?;
    let Some(pool) = log.pool() else { return Ok(None) };
    let load = bench.load.of((bench.load.messages / PART).max(LEAST).min(bench.load.messages));
    bench.way.fresh(bench.folder()).await?;
    if fill(bench.way, pool, load).await?.is_none() {
        return Ok(None);
    }
    // A session of its own, which tells the server at its end what it has done.
    let mut session = PgConnection::connect_with(&pool.connect_options()).await?;
    let watch = Watch::here(bench).await;
    let (what, first) = match bench.way {
        Way::File => return Ok(None),
        Way::Rabbit(rabbit) => {
            ("the worker of ticketflow, without its rests", ticketflow(&mut session, rabbit).await?)
        }
        #[cfg(feature = "kafka")]
        Way::Kafka(kafka) => {
            ("the job of data-registry, without its rests", data_registry(&mut session, kafka).await?)
        }
    };
    let run = watch.run(what, Role::Loop, Pace::since_first(load.messages, first));
    session.close().await?;
    let run = watch.booked(run).await;
    arrived(bench, load.messages).await?;
    Ok(Some(run))
}

/// Makes the table that belongs to the way, and fills it; tells by which preset it is mapped.
pub(super) async fn fill(way: &Way, pool: &PgPool, load: Load) -> anyhow::Result<Option<&'static str>> {
    let (tables, insert, analyze, preset) = match way {
        Way::File => return Ok(None),
        Way::Rabbit(_) => {
            (TICKETFLOW, FILL_TICKETFLOW, r#"analyze outboxd_bench."OutboxMessages""#, "ticketflow")
        }
        #[cfg(feature = "kafka")]
        Way::Kafka(_) => (PRISMA, FILL_PRISMA, r#"analyze outboxd_bench."Outbox""#, "prisma"),
    };
    sqlx::raw_sql(tables).execute(pool).await?;
    let pad = i32::try_from(load.size.saturating_sub(24))?;
    sqlx::query(insert).bind(i64::try_from(load.messages)?).bind(pad).execute(pool).await?;
    sqlx::raw_sql(analyze).execute(pool).await?;
    Ok(Some(preset))
}

/// Fifty rows; of each whether it was processed, one publish and its confirm, one UPDATE and one INSERT. Tells when the
/// first was through.
async fn ticketflow(session: &mut PgConnection, rabbit: &Rabbit) -> anyhow::Result<Instant> {
    let (connection, channel) = rabbit.connect().await?;
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let mut first = None;
    loop {
        sqlx::query("select pg_try_advisory_lock(42)").execute(&mut *session).await?;
        let rows = sqlx::query(
            r#"select * from outboxd_bench."OutboxMessages" where "DispatchedAt" is null and "Attempts" < 5
               order by "OccurredAt" limit 50 for update skip locked"#,
        )
        .fetch_all(&mut *session)
        .await?;
        for row in &rows {
            let id: Uuid = row.get("Id");
            let known = sqlx::query(r#"select 1 from outboxd_bench."ProcessedEvents" where "EventId" = $1"#);
            if known.bind(id).fetch_optional(&mut *session).await?.is_none() {
                let payload = row.get::<String, _>("PayloadJson");
                let (exchange, key) = (rabbit.name().into(), "ticket.created".into());
                let options = BasicPublishOptions::default();
                let sent =
                    channel.basic_publish(exchange, key, options, payload.as_bytes(), persistent.clone());
                sent.await?.await?;
            }
            let marked = sqlx::query(
                r#"update outboxd_bench."OutboxMessages" set "DispatchedAt" = now() where "Id" = $1"#,
            );
            marked.bind(id).execute(&mut *session).await?;
            let recorded = sqlx::query(
                r#"insert into outboxd_bench."ProcessedEvents" ("EventId", "ProcessedAt") values ($1, now())"#,
            );
            recorded.bind(id).execute(&mut *session).await?;
            first.get_or_insert_with(Instant::now);
        }
        sqlx::query("select pg_advisory_unlock(42)").execute(&mut *session).await?;
        if rows.is_empty() {
            connection.close(200, "done".into()).await?;
            return first.context("there was nothing to carry");
        }
    }
}

/// Twenty rows; each is sent and its answer awaited, then marked. Tells when the first was through.
#[cfg(feature = "kafka")]
async fn data_registry(session: &mut PgConnection, kafka: &Kafka) -> anyhow::Result<Instant> {
    let (mut client, mut first) = (kafka.one_by_one()?, None);
    loop {
        let rows = sqlx::query(
            r#"select "id", "topic", "payload"::text as "payload" from outboxd_bench."Outbox"
               where "status" = 'PENDING' and "retries" < 5 order by "createdAt" limit 20"#,
        )
        .fetch_all(&mut *session)
        .await?;
        for row in &rows {
            let (id, payload): (String, String) = (row.get("id"), row.get("payload"));
            client.send(&id, payload.as_bytes()).await?;
            let marked = sqlx::query(
                r#"update outboxd_bench."Outbox" set "status" = 'PROCESSED', "processedAt" = now() where "id" = $1"#,
            );
            marked.bind(id).execute(&mut *session).await?;
            first.get_or_insert_with(Instant::now);
        }
        if rows.is_empty() {
            return first.context("there was nothing to carry");
        }
    }
}

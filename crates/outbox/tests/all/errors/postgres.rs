//! In PostgreSQL.

use outbox::errors::{ErrorSink, ErrorTable};
use outbox::postgres::{audit, error_log, mapped_error_log};
use outbox::{ErrorKind, Message, Outcome, Sink};
use sqlx::{AssertSqlSafe, PgPool};

use super::{Fixture, all_columns, assert_few, failure, few_columns};
use crate::postgres::Log;

async fn run(pool: &PgPool, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(pool).await.unwrap();
}

async fn ours(log: Option<Log>) -> Option<Fixture<Log>> {
    let log = log?;
    Some(Fixture { log: error_log(log.outbox.pool().clone()), unfit: None, _alive: log })
}

/// With types that are not ours.
async fn mapped() -> Option<Fixture<Log>> {
    let log = Log::new().await?;
    let ddl = "create type standing as enum ('open', 'returned', 'resolved');
        create table \"ErrorLogs\" (id serial primary key, message_id uuid not null, type varchar(100), key varchar(100),
            origin varchar(100), code varchar(50), error varchar(500), attempts smallint, payload text, original_payload jsonb,
            content_type text, headers text, first_seen timestamp, last_seen timestamp not null, resolution standing,
            resolved_by text, resolved_at timestamptz, note varchar(20), unique (message_id, origin))";
    run(log.outbox.pool(), ddl).await;
    let made = mapped_error_log(log.outbox.pool().clone(), all_columns()).await.expect("it fits");
    Some(Fixture { log: made, unfit: Some(failure("no uuid")), _alive: log })
}

mod suite {
    outbox::error_log_suite!(super::ours(super::Log::new().await));
}

mod pooled {
    outbox::error_log_suite!(super::ours(super::Log::pooled().await));
}

mod suite_of_a_mapped_table {
    outbox::error_log_suite!(super::mapped());
}

#[tokio::test]
async fn e3_an_error_table_as_the_application_has_it_is_written_to() {
    let Some(log) = Log::new().await else { return };
    for resolved in ["boolean not null", "timestamptz"] {
        let ddl = format!(
            "drop table if exists \"ErrorLogs\"; create table \"ErrorLogs\" (\"Id\" uuid primary key, \"ErrorMessage\" text not null,
                 \"Payload\" jsonb not null, \"Resolved\" {resolved}, \"At\" timestamptz not null, \"Extra\" int)"
        );
        run(log.outbox.pool(), &ddl).await;
        assert_few(mapped_error_log(log.outbox.pool().clone(), few_columns()).await.unwrap()).await;
    }
    for (columns, part) in [
        ("\"Id\" bytea, \"ErrorMessage\" text, \"Payload\" text", "id: 'Id' is bytea"),
        ("\"Id\" uuid, \"ErrorMessage\" int, \"Payload\" text", "error: 'ErrorMessage' is int4"),
        ("\"Id\" uuid, \"ErrorMessage\" text", "payload: there is no column 'Payload'"),
        ("\"Id\" uuid, \"ErrorMessage\" text, \"Payload\" text, x int not null", "column 'x' must be filled"),
    ] {
        run(log.outbox.pool(), &format!("drop table \"ErrorLogs\"; create table \"ErrorLogs\" ({columns})"))
            .await;
        let columns = [("id", "Id"), ("error", "ErrorMessage"), ("payload", "Payload")];
        let table = ErrorTable::parse(Some("public"), "ErrorLogs", columns).unwrap();
        let Err(error) = mapped_error_log(log.outbox.pool().clone(), table).await else { panic!("{part}") };
        assert!(error.kind() == ErrorKind::Mapping && error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn k4_a_missing_table_charges_nobody() {
    let Some(log) = Log::new().await else { return };
    let sink = ErrorSink::new(error_log(log.outbox.pool().clone()));
    run(log.outbox.pool(), "alter table outbox.errors rename to away").await;
    let messages = [Message::new("a", ""), Message::new("a", "")];
    let outcomes = sink.deliver(&messages).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unavailable(_))), "{outcomes:?}");
    run(log.outbox.pool(), "alter table outbox.away rename to errors").await;
    assert_eq!(sink.deliver(&messages).await, vec![Outcome::Delivered; 2]);
}

/// What people did is written down, and by whom (E7).
mod suite_of_the_audit {
    async fn book() -> Option<super::super::Book<super::Log>> {
        let log = super::Log::pooled().await?;
        let audit = super::audit(log.outbox.pool().clone());
        Some(super::super::Book { audit, _alive: log })
    }

    outbox::audit_suite!(book());
}

//! In SQLite.

use outbox::errors::ErrorTable;
use outbox::sqlite::{audit, error_log, mapped_error_log};
use sqlx::AssertSqlSafe;

use super::{Fixture, all_columns, few_columns};
use crate::sqlite::Fresh;

async fn ours() -> Option<Fixture<Fresh>> {
    let fresh = Fresh::new().await;
    Some(Fixture { log: error_log(fresh.outbox.pool().clone()), unfit: None, _alive: fresh })
}

/// With times as text or as numbers.
async fn mapped(time: &str) -> Option<Fixture<Fresh>> {
    let fresh = Fresh::new().await;
    let ddl = format!(
        "CREATE TABLE ErrorLogs (id INTEGER PRIMARY KEY, message_id TEXT NOT NULL, type TEXT, key TEXT, origin TEXT, code TEXT,
             error TEXT, attempts INTEGER, payload TEXT, original_payload TEXT, content_type TEXT, headers TEXT,
             first_seen {time}, last_seen {time} NOT NULL, resolution TEXT, resolved_by TEXT, resolved_at {time}, note TEXT,
             UNIQUE (message_id, origin))"
    );
    sqlx::raw_sql(AssertSqlSafe(ddl)).execute(fresh.outbox.pool()).await.unwrap();
    let log = mapped_error_log(fresh.outbox.pool().clone(), all_columns()).await.expect("it fits");
    Some(Fixture { log, unfit: None, _alive: fresh })
}

mod suite {
    outbox::error_log_suite!(super::ours());
}

mod suite_of_a_mapped_table {
    outbox::error_log_suite!(super::mapped("DATETIME"));
}

mod suite_in_numbers {
    outbox::error_log_suite!(super::mapped("INTEGER"));
}

#[tokio::test]
async fn e3_an_error_table_as_the_application_has_it_is_written_to() {
    let fresh = Fresh::new().await;
    let pool = fresh.outbox.pool();
    for resolved in ["BOOLEAN NOT NULL", "INTEGER NOT NULL", "TEXT"] {
        let ddl = format!(
            "DROP TABLE IF EXISTS ErrorLogs; CREATE TABLE ErrorLogs (Id TEXT PRIMARY KEY CHECK (length(Id) = 36), ErrorMessage TEXT NOT NULL,
                 Payload TEXT NOT NULL, Resolved {resolved}, At TEXT NOT NULL)"
        );
        sqlx::raw_sql(AssertSqlSafe(ddl)).execute(pool).await.unwrap();
        super::assert_few(mapped_error_log(pool.clone(), few_columns()).await.unwrap()).await;
    }
    for (columns, part) in
        [(vec![("id", "Id")], "error: is missing"), (vec![("idd", "Id")], "idd: is nothing of an error")]
    {
        let error = ErrorTable::parse(None, "ErrorLogs", columns).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

/// What people did is written down, and by whom (E7).
mod suite_of_the_audit {
    async fn book() -> Option<super::super::Book<super::Fresh>> {
        let fresh = super::Fresh::new().await;
        let audit = super::audit(fresh.outbox.pool().clone());
        Some(super::super::Book { audit, _alive: fresh })
    }

    outbox::audit_suite!(book());
}

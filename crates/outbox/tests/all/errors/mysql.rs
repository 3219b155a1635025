//! In MariaDB.

use outbox::errors::ErrorSink;
use outbox::mysql::{audit, error_log, mapped_error_log};
use outbox::{Message, Outcome, Sink};

use super::{Fixture, all_columns, assert_few, failure, few_columns};
use crate::mysql::Fresh;

async fn ours() -> Option<Fixture<Fresh>> {
    let fresh = Fresh::new().await?;
    let unfit = Some(failure(&"x".repeat(256)));
    Some(Fixture { log: error_log(fresh.pool.clone()), unfit, _alive: fresh })
}

/// With types that are not ours.
async fn mapped() -> Option<Fixture<Fresh>> {
    let fresh = Fresh::empty().await?;
    fresh
        .run(
            "create table `ErrorLogs` (id int auto_increment primary key, message_id uuid not null, type varchar(100),
                 `key` varchar(100), origin varchar(100), code varchar(50), error varchar(500), attempts smallint, payload longtext,
                 original_payload json, content_type text, headers json, first_seen datetime(3), last_seen timestamp(3) not null,
                 resolution varchar(10), resolved_by text, resolved_at datetime, note varchar(20), unique (message_id, origin))",
        )
        .await;
    let log = mapped_error_log(fresh.pool.clone(), all_columns()).await.expect("it fits");
    Some(Fixture { log, unfit: Some(failure("no uuid")), _alive: fresh })
}

mod suite {
    outbox::error_log_suite!(super::ours());
}

mod suite_of_a_mapped_table {
    outbox::error_log_suite!(super::mapped());
}

#[tokio::test]
async fn e3_an_error_table_as_the_application_has_it_is_written_to() {
    let Some(fresh) = Fresh::empty().await else { return };
    for resolved in ["boolean not null", "bit(1) not null", "datetime"] {
        let ddl = format!(
            "drop table if exists `ErrorLogs`; create table `ErrorLogs` (`Id` uuid primary key, `ErrorMessage` text not null,
                 `Payload` json not null, `Resolved` {resolved}, `At` datetime(6) not null, `Extra` int)"
        );
        fresh.run(&ddl).await;
        assert_few(mapped_error_log(fresh.pool.clone(), few_columns()).await.unwrap()).await;
    }
}

/// A server may cut the connection of whoever sends it too much, which looks like an outage.
#[tokio::test]
async fn e3_a_message_that_the_server_is_too_small_for_does_not_stop_the_others_for_ever() {
    let Some(fresh) = Fresh::new().await else { return };
    let limit: u64 = sqlx::query_scalar("select @@max_allowed_packet").fetch_one(&fresh.pool).await.unwrap();
    let large = Message::new("a", vec![0; usize::try_from(limit).unwrap() + 1]);
    let sink = ErrorSink::new(error_log(fresh.pool.clone()));
    let mut outcomes = Vec::new();
    for _ in 0..5 {
        outcomes.extend(sink.deliver(std::slice::from_ref(&large)).await);
    }
    // Sometimes it tells before it cuts, sometimes not: either way the message is charged before long.
    assert!(outcomes.iter().any(|outcome| matches!(outcome, Outcome::Rejected(_))), "{outcomes:?}");
    assert_eq!(sink.deliver(&[Message::new("a", "b")]).await, [Outcome::Delivered]);
}

/// What people did is written down, and by whom (E7).
mod suite_of_the_audit {
    async fn book() -> Option<super::super::Book<super::Fresh>> {
        let fresh = super::Fresh::new().await?;
        let audit = super::audit(fresh.pool.clone());
        Some(super::super::Book { audit, _alive: fresh })
    }

    outbox::audit_suite!(book());
}

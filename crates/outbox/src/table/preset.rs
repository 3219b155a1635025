//! Mappings of layouts that many have, so that nobody writes them again.
//!
//! A preset is a [`Draft`]: what a person sets goes before it. Where a layout has no place for attempts or for
//! what is dead, neither has its preset; such a message is tried until it goes through or a person removes it.

use std::collections::BTreeMap;

use super::draft::Draft;
use crate::header;

/// A layout that is known by name.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// Its name in the configuration.
    pub name: &'static str,
    /// Whose layout it is, and its table.
    pub about: &'static str,
    draft: fn() -> Draft,
}

const PRESETS: [Preset; 6] = [
    Preset {
        name: "ticketflow",
        about: "OutboxMessages with DispatchedAt and Attempts, and ProcessedEvents",
        draft: ticketflow,
    },
    Preset { name: "prisma", about: "the model Outbox of a Prisma schema, with a status", draft: prisma },
    Preset {
        name: "efcore",
        about: "OutboxMessages with ProcessedOnUtc, as samples for EF Core have it",
        draft: efcore,
    },
    Preset { name: "debezium", about: "outboxevent of Debezium's outbox event router", draft: debezium },
    Preset { name: "cap", about: "cap.published of DotNetCore.CAP", draft: cap },
    Preset { name: "masstransit", about: "OutboxMessage of MassTransit's bus outbox", draft: masstransit },
];

/// Every preset.
pub fn presets() -> &'static [Preset] {
    &PRESETS
}

/// The mapping of a layout that is known by this name.
pub fn preset(name: &str) -> Option<Draft> {
    PRESETS.iter().find(|preset| preset.name == name).map(|preset| (preset.draft)())
}

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

fn headers<const N: usize>(columns: [(&str, &str); N]) -> BTreeMap<String, String> {
    columns.map(|(header, column)| (header.to_owned(), column.to_owned())).into()
}

fn ticketflow() -> Draft {
    Draft {
        table: text("OutboxMessages"),
        id: text("Id"),
        kind: text("Type"),
        payload: text("PayloadJson"),
        header_columns: headers([(header::CORRELATION_ID, "CorrelationId")]),
        occurred_at: text("OccurredAt"),
        pending: text("DispatchedAt IS NULL AND Attempts < 5"),
        done: text("DispatchedAt = now"),
        attempts: text("Attempts"),
        error: text("Error"),
        lock: Some(42),
        processed_table: text("ProcessedEvents"),
        processed_id: text("EventId"),
        processed_at: text("ProcessedAt"),
        ..Draft::default()
    }
}

fn prisma() -> Draft {
    Draft {
        table: text("Outbox"),
        id: text("id"),
        kind: text("topic"),
        payload: text("payload"),
        occurred_at: text("createdAt"),
        pending: text("status = 'PENDING' AND retries < 5"),
        done: text("status = 'PROCESSED', processedAt = now"),
        dead: text("status = 'FAILED'"),
        attempts: text("retries"),
        ..Draft::default()
    }
}

/// The samples mark what failed as processed, with its error. We do not: then nobody could tell it from what
/// went out, and nothing would try it again.
fn efcore() -> Draft {
    Draft {
        table: text("OutboxMessages"),
        id: text("Id"),
        kind: text("Type"),
        payload: text("Content"),
        occurred_at: text("OccurredOnUtc"),
        pending: text("ProcessedOnUtc IS NULL"),
        done: text("ProcessedOnUtc = now"),
        error: text("Error"),
        ..Draft::default()
    }
}

/// Every row is pending, and a row that is done is removed: the router, should it still run, ignores a DELETE
/// and warns of an UPDATE.
fn debezium() -> Draft {
    Draft {
        table: text("outboxevent"),
        id: text("id"),
        kind: text("type"),
        key: text("aggregateid"),
        payload: text("payload"),
        header_columns: headers([("id", "id"), ("aggregatetype", "aggregatetype")]),
        pending: text("id IS NOT NULL"),
        done: text("delete"),
        ..Draft::default()
    }
}

/// CAP has no state for dead: 50 tries are the end. `ExpiresAt` in the past lets its collector remove the row,
/// and tells us since when it is done. The id is a number that grows with time, and the primary key.
fn cap() -> Draft {
    Draft {
        schema: text("cap"),
        table: text("published"),
        id: text("Id"),
        kind: text("Name"),
        payload: text("Content->Value"),
        headers: text("Content->Headers"),
        occurred_at: text("Added"),
        order_by: vec!["Id".to_owned()],
        pending: text("StatusName IN ('Scheduled', 'Failed') AND Version = 'v1' AND Retries < 50"),
        done: text("StatusName = 'Succeeded', ExpiresAt = now"),
        failed: text("StatusName = 'Failed'"),
        attempts: text("Retries"),
        ..Draft::default()
    }
}

/// Rows without `OutboxId` are a consumer's own: its receive endpoint delivers those.
fn masstransit() -> Draft {
    const HEADERS: [&str; 7] = [
        "ConversationId",
        "InitiatorId",
        "RequestId",
        "SourceAddress",
        "DestinationAddress",
        "ResponseAddress",
        "FaultAddress",
    ];
    let mut header_columns = headers(HEADERS.map(|name| (name, name)));
    header_columns.extend(headers([(header::CORRELATION_ID, "CorrelationId")]));
    Draft {
        table: text("OutboxMessage"),
        id: text("MessageId"),
        kind: text("MessageType"),
        key: text("OutboxId"),
        payload: text("Body"),
        content_type: text("ContentType"),
        headers: text("Headers"),
        header_columns,
        occurred_at: text("SentTime"),
        order_by: vec!["SequenceNumber".to_owned()],
        pending: text("OutboxId IS NOT NULL"),
        done: text("delete"),
        due: text("EnqueueTime"),
        ..Draft::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Mapping;

    fn mapping(name: &str) -> Mapping {
        preset(name).unwrap().check().unwrap_or_else(|flaws| panic!("{name}: {flaws:?}"))
    }

    #[test]
    fn every_preset_is_a_whole_mapping_and_its_name_is_its_own() {
        for Preset { name, .. } in presets() {
            mapping(name);
            assert_eq!(presets().iter().filter(|other| other.name == *name).count(), 1, "{name}");
        }
        assert_eq!(preset("Ticketflow"), None);
    }

    #[test]
    fn a_preset_says_where_a_message_ends_that_cannot_go() {
        let ends = |name| {
            let mapping = mapping(name);
            (mapping.attempts_limit(), mapping.can_be_dead(), mapping.done_at().map(ToString::to_string))
        };
        let at = |column: &str| Some(column.to_owned());
        assert_eq!(ends("ticketflow"), (Some(5), true, at("DispatchedAt")));
        assert_eq!(ends("prisma"), (Some(5), true, at("processedAt")));
        assert_eq!(ends("efcore"), (None, false, at("ProcessedOnUtc")));
        assert_eq!(ends("debezium"), (None, false, None));
        assert_eq!(ends("cap"), (Some(50), true, at("ExpiresAt")));
        assert_eq!(ends("masstransit"), (None, false, None));
    }
}

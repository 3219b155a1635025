//! What a column is by its name and type, as outboxes of many teams have them.

use crate::table::{Column, Type};

/// What a column may be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Id,
    Type,
    Key,
    Payload,
    ContentType,
    Headers,
    Occurred,
    /// Counts up as rows are written.
    Sequence,
    DoneAt,
    DoneFlag,
    Status,
    Attempts,
    Error,
    Due,
    DeadAt,
    Stamp,
    /// Until when somebody has it, which we cannot keep up.
    LockedUntil,
    Correlation,
    Causation,
    Trace,
    SagaId,
    SagaStep,
    /// A header under its own name.
    Header,
}

type Fits = fn(&Type) -> bool;

fn text(kind: &Type) -> bool {
    matches!(kind, Type::Text(_))
}

fn word(kind: &Type) -> bool {
    matches!(kind, Type::Text(_) | Type::Enum(_))
}

fn any_id(kind: &Type) -> bool {
    matches!(kind, Type::Text(_) | Type::Uuid | Type::Integer)
}

fn body(kind: &Type) -> bool {
    matches!(kind, Type::Text(_) | Type::Json | Type::Bytes)
}

fn object(kind: &Type) -> bool {
    matches!(kind, Type::Text(_) | Type::Json)
}

fn time(kind: &Type) -> bool {
    matches!(kind, Type::Time { .. })
}

fn flag(kind: &Type) -> bool {
    *kind == Type::Bool
}

fn count(kind: &Type) -> bool {
    *kind == Type::Integer
}

/// The likelier name stands first: of two columns with one role, that one is taken.
const NAMES: &[(Role, Fits, &[&str])] = &[
    (Role::Id, any_id, &["id", "messageid", "eventid", "outboxid", "uuid", "guid"]),
    (
        Role::Type,
        word,
        &[
            "eventtype",
            "messagetype",
            "type",
            "topic",
            "eventname",
            "routingkey",
            "kind",
            "event",
            "name",
            "subject",
        ],
    ),
    (
        Role::Payload,
        body,
        &[
            "payload",
            "payloadjson",
            "eventdata",
            "eventpayload",
            "content",
            "data",
            "body",
            "messagebody",
            "message",
            "json",
            "value",
        ],
    ),
    (
        Role::Key,
        any_id,
        &["aggregateid", "partitionkey", "messagekey", "key", "aggregaterootid", "entityid", "streamid"],
    ),
    (Role::ContentType, text, &["contenttype", "mimetype"]),
    (Role::Headers, object, &["headers", "metadata", "attributes"]),
    (
        Role::Occurred,
        time,
        &[
            "occurredat",
            "occurredon",
            "occurredonutc",
            "occurredatutc",
            "createdat",
            "createdon",
            "createdonutc",
            "createdatutc",
            "timestamp",
            "eventtime",
            "insertedat",
            "enqueuedat",
            "created",
            "occurred",
            "createdtime",
            "senttime",
            "added",
        ],
    ),
    (Role::Sequence, count, &["sequencenumber", "sequence", "seq", "position", "globalposition", "offset"]),
    (
        Role::DoneAt,
        time,
        &[
            "processedat",
            "processedon",
            "processedonutc",
            "processedatutc",
            "processeddate",
            "dispatchedat",
            "dispatchedon",
            "publishedat",
            "publishedon",
            "sentat",
            "senton",
            "deliveredat",
            "completedat",
            "relayedat",
        ],
    ),
    (
        Role::DoneFlag,
        flag,
        &[
            "isprocessed",
            "processed",
            "issent",
            "sent",
            "ispublished",
            "published",
            "isdispatched",
            "dispatched",
            "isdelivered",
            "delivered",
        ],
    ),
    (Role::Status, word, &["status", "state", "statusname", "outboxstatus", "processingstatus"]),
    (
        Role::Attempts,
        count,
        &[
            "attempts",
            "attemptcount",
            "retries",
            "retrycount",
            "tries",
            "numberofattempts",
            "deliveryattempts",
        ],
    ),
    (Role::Error, text, &["error", "lasterror", "errormessage", "failurereason", "lasterrormessage"]),
    (
        Role::Due,
        time,
        &[
            "nextattemptat",
            "nextretryat",
            "availableat",
            "nextattemptonutc",
            "nextretryon",
            "retryat",
            "visibleat",
            "dueat",
        ],
    ),
    (Role::DeadAt, time, &["deadletteredat", "deadletteredonutc", "deadletteredon", "deadat", "failedat"]),
    (Role::Stamp, time, &["processingstartedat", "lockedat", "claimedat", "pickedat", "startedat"]),
    (
        Role::LockedUntil,
        time,
        &["lockeduntil", "leaseexpiresat", "leaseuntil", "lockexpiresat", "claimeduntil"],
    ),
    (Role::Correlation, any_id, &["correlationid"]),
    (Role::Causation, any_id, &["causationid"]),
    (Role::Trace, text, &["traceparent"]),
    (Role::SagaId, any_id, &["sagaid"]),
    (Role::SagaStep, any_id, &["sagastep"]),
    (Role::Header, any_id, &["aggregatetype", "tenantid", "source"]),
];

/// Without case and signs: `OccurredAt`, `occurred_at` and `occurredAt` are one name.
pub(super) fn normal(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// What a column is, and how likely: the smaller the number the better.
fn known(column: &Column) -> Option<(Role, usize)> {
    let name = normal(&column.name);
    NAMES.iter().find_map(|(role, fits, names)| {
        let at = names.iter().position(|other| *other == name)?;
        fits(&column.kind).then_some((*role, at))
    })
}

/// What a column is.
pub(super) fn role_of(column: &Column) -> Option<Role> {
    known(column).map(|(role, _)| role)
}

/// The likeliest column of a role.
pub(super) fn find(columns: &[Column], role: Role) -> Option<&Column> {
    let ranked = columns.iter().filter_map(|column| Some((known(column)?, column)));
    ranked.filter(|((other, _), _)| *other == role).min_by_key(|((_, at), _)| *at).map(|(_, column)| column)
}

-- Messages that failed for good, as they arrived from an error queue, and what people did about them.
CREATE TABLE outbox_errors (
    id               TEXT PRIMARY KEY,
    message_id       TEXT NOT NULL,
    type             TEXT NOT NULL,
    key              TEXT,
    origin           TEXT NOT NULL,
    code             TEXT NOT NULL,
    error            TEXT NOT NULL,
    attempts         INTEGER NOT NULL,
    payload          BLOB NOT NULL,
    original_payload BLOB,
    content_type     TEXT NOT NULL,
    headers          TEXT NOT NULL,
    first_seen       TEXT NOT NULL,
    last_seen        TEXT NOT NULL,
    resolution       TEXT NOT NULL DEFAULT 'open' CHECK (resolution IN ('open', 'returned', 'resolved')),
    resolved_by      TEXT,
    resolved_at      TEXT,
    note             TEXT,
    UNIQUE (message_id, origin)
);

CREATE INDEX outbox_errors_open ON outbox_errors (id) WHERE resolution = 'open';

-- The ids that a consumer has handled, written in the transaction in which it handled them.
CREATE TABLE outbox_inbox (
    consumer   TEXT NOT NULL,
    message_id TEXT NOT NULL,
    handled_at INTEGER NOT NULL,
    PRIMARY KEY (consumer, message_id)
) WITHOUT ROWID;

CREATE INDEX outbox_inbox_handled ON outbox_inbox (handled_at);

-- What people did to messages, and who. Rows are inserted and never updated.
CREATE TABLE outbox_audit (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    at         TEXT NOT NULL,
    who        TEXT NOT NULL,
    action     TEXT NOT NULL,
    target     TEXT NOT NULL,
    message_id TEXT,
    detail     TEXT
);

CREATE INDEX outbox_audit_message ON outbox_audit (message_id) WHERE message_id IS NOT NULL;

-- Attempts of consumers that failed: notes for people, pruned together with the inbox.
CREATE TABLE outbox_attempts (
    seq        INTEGER PRIMARY KEY,
    consumer   TEXT NOT NULL,
    message_id TEXT NOT NULL,
    attempt    INTEGER NOT NULL,
    dead       INTEGER NOT NULL,
    code       TEXT NOT NULL,
    detail     TEXT NOT NULL,
    failed_at  INTEGER NOT NULL
);

CREATE INDEX outbox_attempts_message ON outbox_attempts (message_id);
CREATE INDEX outbox_attempts_failed ON outbox_attempts (failed_at);

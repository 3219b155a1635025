-- The log: applications insert, nobody updates. AUTOINCREMENT, so that a number is never used again
-- after a purge: a cursor stands on numbers. The payload is the last column, so that a scan over the
-- others does not walk through its overflow pages.
--
-- Any language writes to it, in its own transaction:
--     INSERT INTO outbox_messages (type, key, payload) VALUES ('order.created', '42', '{"id":42}');
-- The default id is a UUIDv7: 48 bits of milliseconds, then version, variant and 74 random bits.
CREATE TABLE outbox_messages (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT NOT NULL UNIQUE DEFAULT (
        printf('%08x-%04x-7%03x-%04x-%012x',
            CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) >> 16,
            CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) & 65535,
            random() & 4095,
            (random() & 16383) | 32768,
            random() & 281474976710655)
    ),
    type         TEXT NOT NULL,
    key          TEXT,
    content_type TEXT NOT NULL DEFAULT 'application/json',
    headers      TEXT NOT NULL DEFAULT '{}',
    occurred_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    payload      BLOB NOT NULL
);

-- Progress, one row per pipe and lane. Every message of the lane with seq <= pos is done or parked.
-- epoch counts the owners, turn the settles under one owner. Times are unix milliseconds.
CREATE TABLE outbox_cursors (
    name        TEXT NOT NULL,
    lane        INTEGER NOT NULL,
    lanes       INTEGER NOT NULL,
    epoch       INTEGER NOT NULL DEFAULT 0,
    turn        INTEGER NOT NULL DEFAULT 0,
    owner       TEXT,
    lease_until INTEGER NOT NULL DEFAULT 0,
    pos         INTEGER NOT NULL,
    delivered   INTEGER NOT NULL DEFAULT 0,
    created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    PRIMARY KEY (name, lane)
) WITHOUT ROWID;

-- The relays that share the lanes of a cursor, and when each was last seen.
CREATE TABLE outbox_relays (
    cursor TEXT NOT NULL,
    owner  TEXT NOT NULL,
    seen   INTEGER NOT NULL,
    PRIMARY KEY (cursor, owner)
) WITHOUT ROWID;

-- What is set aside. Among the rows of a key that hold it (waiting, behind, or dead with holds = 1),
-- the first is never 'behind': otherwise nothing would ever bring it back.
CREATE TABLE outbox_parked (
    cursor    TEXT NOT NULL,
    lane      INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    key       TEXT,
    attempts  INTEGER NOT NULL,
    due       INTEGER NOT NULL,
    state     TEXT NOT NULL CHECK (state IN ('waiting', 'behind', 'dead')),
    holds     INTEGER NOT NULL DEFAULT 0,
    code      TEXT,
    detail    TEXT,
    parked_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    PRIMARY KEY (cursor, seq)
) WITHOUT ROWID;

CREATE INDEX outbox_parked_due ON outbox_parked (cursor, lane, due) WHERE state = 'waiting';
CREATE INDEX outbox_parked_key ON outbox_parked (cursor, key, seq);
CREATE INDEX outbox_parked_seq ON outbox_parked (seq);

-- The limits, for whoever writes, in whatever language. These are the defaults; `migrate` puts in those that
-- are configured.
CREATE TRIGGER outbox_limits BEFORE INSERT ON outbox_messages BEGIN
    SELECT CASE
        WHEN typeof(NEW.type) <> 'text' OR trim(NEW.type) = ''
            THEN RAISE(ABORT, 'outbox: a message must have a type')
        WHEN typeof(NEW.key) NOT IN ('text', 'null')
            THEN RAISE(ABORT, 'outbox: the key must be text')
        WHEN typeof(NEW.payload) NOT IN ('text', 'blob')
            THEN RAISE(ABORT, 'outbox: the payload must be text or a blob')
        WHEN length(CAST(NEW.payload AS BLOB)) > 1048576
            THEN RAISE(ABORT, 'outbox: the payload is larger than 1048576 bytes')
        WHEN julianday(NEW.occurred_at) IS NULL
            THEN RAISE(ABORT, 'outbox: occurred_at must be a time such as 2026-01-31T12:00:00.000Z')
        WHEN NEW.headers = '{}' THEN NULL
        WHEN NOT json_valid(NEW.headers)
            THEN RAISE(ABORT, 'outbox: the headers must be a JSON object of strings')
        WHEN json_type(NEW.headers) <> 'object'
            THEN RAISE(ABORT, 'outbox: the headers must be a JSON object of strings')
        WHEN EXISTS (SELECT 1 FROM json_each(NEW.headers) WHERE type <> 'text')
            THEN RAISE(ABORT, 'outbox: the headers must be a JSON object of strings')
        WHEN EXISTS (SELECT 1 FROM json_each(NEW.headers) WHERE key = '')
            THEN RAISE(ABORT, 'outbox: a header has no name')
        WHEN (SELECT count(*) FROM json_each(NEW.headers)) > 64
            THEN RAISE(ABORT, 'outbox: there are more than 64 headers')
        WHEN (SELECT sum(length(CAST(key AS BLOB)) + length(CAST(value AS BLOB))) FROM json_each(NEW.headers))
                > 16384
            THEN RAISE(ABORT, 'outbox: the headers are larger than 16384 bytes')
    END;
END;

-- Which instance runs which pipe, and how it last was.
CREATE TABLE outbox_beats (
    instance        TEXT NOT NULL,
    pipe            TEXT NOT NULL,
    version         TEXT NOT NULL,
    started_at      TEXT NOT NULL,
    state           TEXT NOT NULL,
    cause           TEXT,
    last_message_at TEXT,
    delivered       INTEGER NOT NULL,
    failed          INTEGER NOT NULL,
    in_flight       INTEGER NOT NULL,
    beat_at         TEXT NOT NULL,
    stopped_at      TEXT,
    PRIMARY KEY (instance, pipe)
);

-- Which pipes stand still because somebody wants it so.
CREATE TABLE outbox_pauses (
    pipe      TEXT PRIMARY KEY NOT NULL,
    paused_by TEXT NOT NULL,
    paused_at TEXT NOT NULL,
    note      TEXT
);

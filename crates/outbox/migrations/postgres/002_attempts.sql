-- Attempts of consumers that failed: notes for people, pruned together with the inbox.
create table outbox.attempts (
    seq bigint generated always as identity primary key,
    consumer text not null,
    message_id text not null,
    attempt integer not null,
    dead boolean not null,
    code text not null,
    detail text not null,
    failed_at timestamptz not null default clock_timestamp()
);
create index attempts_message_id on outbox.attempts (message_id);
create index attempts_failed_at on outbox.attempts (failed_at);

-- Messages that failed for good, as they arrived from an error queue, and what people did about them.
create table outbox.errors (
    id uuid primary key,
    message_id text not null,
    type text not null,
    key text,
    origin text not null,
    code text not null,
    error text not null,
    attempts integer not null,
    payload bytea not null,
    original_payload bytea,
    content_type text not null,
    headers jsonb not null,
    first_seen timestamptz not null,
    last_seen timestamptz not null,
    resolution text not null default 'open' check (resolution in ('open', 'returned', 'resolved')),
    resolved_by text,
    resolved_at timestamptz,
    note text,
    unique (message_id, origin)
);
create index errors_open on outbox.errors (id) where resolution = 'open';

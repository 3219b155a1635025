-- What people did to messages, and who. Rows are inserted and never updated.
create table outbox.audit (
    seq bigint generated always as identity primary key,
    at timestamptz not null,
    who text not null,
    action text not null,
    target text not null,
    message_id text,
    detail text
);
create index audit_message_id on outbox.audit (message_id) where message_id is not null;

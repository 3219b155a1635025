-- The outbox log, its cursors, what is set aside, and the inbox.
-- Rows of outbox.messages are inserted by applications and never updated.

create schema if not exists outbox;

-- One value at a time: a session that kept a stock of values would hand out small ones late.
create sequence outbox.messages_seq as bigint cache 1;

-- A UUIDv7: the time in front, so that ids sort by age and the index grows at its end.
create function outbox.new_id() returns uuid language sql volatile parallel safe as $$
    select (lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0')
            || '7' || substr(random, 1, 3) || substr(random, 17, 16))::uuid
    from (select replace(gen_random_uuid()::text, '-', '') as random) as fresh
$$;

-- Whether headers are an object of so many members and bytes at the most.
create function outbox.headers_fit(headers jsonb, most integer, most_bytes integer) returns boolean
language sql immutable parallel safe as $$
    select case
        when headers = '{}' then true
        when jsonb_typeof(headers) <> 'object' then false
        else (select count(*) <= most and coalesce(sum(octet_length(name) + octet_length(value)), 0) <= most_bytes
              from jsonb_each_text(headers) as header(name, value))
    end
$$;

-- Which lane a message belongs to. Messages of one key share a lane; the others are spread.
create function outbox.lane_of(key text, seq bigint, lanes integer) returns integer
language sql immutable parallel safe as $$
    select ('x' || substr(md5(coalesce(key, seq::text)), 1, 7))::bit(28)::integer % lanes
$$;

create table outbox.messages (
    -- The transaction gets its id before the row gets its number: the readers rely on that, see
    -- docs/explanation/reading-the-log.md.
    seq bigint not null default case
        when pg_current_xact_id() is not null then nextval('outbox.messages_seq')
    end primary key,
    xid xid8 not null default pg_current_xact_id(),
    id uuid not null default outbox.new_id(),
    type text not null,
    key text,
    payload bytea not null,
    content_type text not null default 'application/json',
    headers jsonb not null default '{}',
    occurred_at timestamptz not null default clock_timestamp(),
    constraint outbox_type_must_not_be_empty check (btrim(type) <> ''),
    constraint outbox_payload_limit check (octet_length(payload) <= 1048576),
    constraint outbox_headers_limit check (outbox.headers_fit(headers, 64, 16384))
);
alter sequence outbox.messages_seq owned by outbox.messages.seq;
create unique index messages_id on outbox.messages (id);
-- For rows of transactions that were in progress when a snapshot was taken.
create index messages_xid on outbox.messages (xid);

-- One reader of the log, under a lease. Its progress is two snapshots: everything visible in s1 is done;
-- s2 is being read, and is done up to pos.
create table outbox.cursors (
    name text not null,
    lane integer not null default 0,
    lanes integer not null default 1,
    epoch bigint not null default 0,
    turn bigint not null default 0,
    owner text,
    lease_until timestamptz,
    s1 pg_snapshot not null,
    s2 pg_snapshot,
    pos bigint not null default 0,
    -- Rows that s1 does not show have seq above floor, but for those of its transactions in progress.
    floor bigint not null default 0,
    -- The same for s2, known since it was taken.
    next_floor bigint not null default 0,
    -- Rows up to base are never read from the log.
    base bigint not null default 0,
    -- The highest seq that this cursor has met.
    top bigint not null default 0,
    -- The server whose transaction ids the snapshots speak of.
    system_id bigint not null,
    delivered bigint not null default 0,
    created_at timestamptz not null default clock_timestamp(),
    primary key (name, lane)
) with (fillfactor = 50);

-- What a cursor has set aside: waiting for another attempt, behind an earlier one of its key, or dead.
create table outbox.parked (
    cursor text not null,
    lane integer not null,
    seq bigint not null,
    key text,
    attempts integer not null default 0,
    state text not null check (state in ('waiting', 'behind', 'dead')),
    due timestamptz not null default clock_timestamp(),
    holds boolean not null default true,
    code text,
    detail text,
    parked_at timestamptz not null default clock_timestamp(),
    primary key (cursor, seq)
);
create index parked_due on outbox.parked (cursor, lane, due) where state = 'waiting';
create index parked_key on outbox.parked (cursor, key, seq) where key is not null;
create index parked_seq on outbox.parked (seq);

-- Relays that share the lanes of a cursor, so that each takes its part and no more.
create table outbox.relays (
    cursor text not null,
    owner text not null,
    seen_at timestamptz not null default clock_timestamp(),
    primary key (cursor, owner)
);

-- The ids that a consumer has handled, written in the transaction in which it handled them.
create table outbox.inbox (
    consumer text not null,
    message_id text not null,
    handled_at timestamptz not null default clock_timestamp(),
    primary key (consumer, message_id)
);
create index inbox_handled_at on outbox.inbox (handled_at);

-- Writing an event from any language: select outbox.enqueue('order.created', 'order-1', '{"total": 3}'::jsonb)
create function outbox.enqueue(type text, key text, payload bytea, headers jsonb default '{}',
                               content_type text default 'application/octet-stream') returns uuid
language sql volatile as $$
    insert into outbox.messages (type, key, payload, headers, content_type)
    values (type, key, payload, coalesce(headers, '{}'), content_type)
    returning id
$$;

create function outbox.enqueue(type text, key text, payload jsonb, headers jsonb default '{}',
                               content_type text default 'application/json') returns uuid
language sql volatile as $$
    select outbox.enqueue(type, key, convert_to(payload::text, 'UTF8'), headers, content_type)
$$;

create function outbox.enqueue(type text, key text, payload text, headers jsonb default '{}',
                               content_type text default 'application/json') returns uuid
language sql volatile as $$
    select outbox.enqueue(type, key, convert_to(payload, 'UTF8'), headers, content_type)
$$;

-- A hint for readers that listen; only used where a trigger for it is asked for.
create function outbox.wake() returns trigger language plpgsql as $$
begin
    perform pg_notify('outbox', '');
    return null;
end
$$;

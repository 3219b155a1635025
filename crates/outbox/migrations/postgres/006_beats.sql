-- Which instance runs which pipe, and how it last was; beat_at is of the clock of this server.
create table outbox.beats (
    instance text not null,
    pipe text not null,
    version text not null,
    started_at timestamptz not null,
    state text not null,
    cause text,
    last_message_at timestamptz,
    delivered bigint not null,
    failed bigint not null,
    in_flight bigint not null,
    beat_at timestamptz not null,
    stopped_at timestamptz,
    primary key (instance, pipe)
);

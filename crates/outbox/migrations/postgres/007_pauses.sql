-- Which pipes stand still because somebody wants it so; paused_at is of the clock of this server.
create table outbox.pauses (
    pipe text primary key,
    paused_by text not null,
    paused_at timestamptz not null,
    note text
);

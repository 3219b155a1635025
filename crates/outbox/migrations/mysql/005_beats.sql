-- Which instance runs which pipe, and how it last was; beat_at is of the clock of this server, in UTC.
create table if not exists outbox_beats (
    instance varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    pipe varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    version varchar(255) character set utf8mb4 not null,
    started_at datetime(6) not null,
    state varchar(255) character set utf8mb4 not null,
    cause text character set utf8mb4,
    last_message_at datetime(6),
    delivered bigint not null,
    failed bigint not null,
    in_flight bigint not null,
    beat_at datetime(6) not null,
    stopped_at datetime(6),
    primary key (instance, pipe)
) engine = InnoDB row_format = dynamic;

-- Which pipes stand still because somebody wants it so; paused_at is of the clock of this server, in UTC.
create table if not exists outbox_pauses (
    pipe varchar(255) character set utf8mb4 collate utf8mb4_bin not null primary key,
    paused_by varchar(255) character set utf8mb4 not null,
    paused_at datetime(6) not null,
    note text character set utf8mb4
) engine = InnoDB row_format = dynamic;

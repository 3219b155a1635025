-- Messages that failed for good, as they arrived from an error queue, and what people did about them.
create table if not exists outbox_errors (
    id varchar(36) character set ascii collate ascii_bin not null primary key,
    message_id varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    type varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    `key` text character set utf8mb4 collate utf8mb4_bin,
    origin varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    code varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    error text character set utf8mb4 not null,
    attempts int unsigned not null,
    payload longblob not null,
    original_payload longblob,
    content_type varchar(255) character set utf8mb4 not null,
    headers longtext character set utf8mb4 not null,
    first_seen datetime(6) not null,
    last_seen datetime(6) not null,
    resolution varchar(10) character set ascii not null default 'open',
    resolved_by varchar(255) character set utf8mb4,
    resolved_at datetime(6),
    note text character set utf8mb4,
    unique (message_id, origin),
    index outbox_errors_standing (resolution, id)
) engine = InnoDB;

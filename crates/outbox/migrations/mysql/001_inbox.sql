-- The ids that a consumer has handled, written in the transaction in which it handled them.
create table if not exists outbox_inbox (
    consumer varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    message_id varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    handled_at datetime(6) not null,
    primary key (consumer, message_id),
    index outbox_inbox_handled (handled_at)
) engine = InnoDB;

-- Attempts of consumers that failed: notes for people, pruned together with the inbox.
create table if not exists outbox_attempts (
    seq bigint not null auto_increment primary key,
    consumer varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    message_id varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    attempt int unsigned not null,
    dead boolean not null,
    code varchar(255) character set utf8mb4 not null,
    detail text character set utf8mb4 not null,
    failed_at datetime(6) not null,
    index outbox_attempts_message (message_id),
    index outbox_attempts_failed (failed_at)
) engine = InnoDB;

-- What people did to messages, and who. Rows are inserted and never updated.
create table if not exists outbox_audit (
    seq bigint not null auto_increment primary key,
    at datetime(6) not null,
    who varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    action varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    target varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    message_id varchar(255) character set utf8mb4 collate utf8mb4_bin,
    detail text character set utf8mb4,
    index outbox_audit_message (message_id)
) engine = InnoDB;

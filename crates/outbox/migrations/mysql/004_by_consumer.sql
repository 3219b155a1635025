-- Each consumer's ids and notes are pruned by its own window: what is old among them is found without a look at the others'.
-- MySQL makes no index "if not exists", and this step may be taken again.
set @outbox_step = (select if(count(*) > 0, 'do 0', 'alter table outbox_inbox
    add index outbox_inbox_consumer (consumer, handled_at), drop index outbox_inbox_handled')
    from information_schema.statistics
    where table_schema = database() and table_name = 'outbox_inbox' and index_name = 'outbox_inbox_consumer');
prepare outbox_step from @outbox_step;
execute outbox_step;
set @outbox_step = (select if(count(*) > 0, 'do 0', 'alter table outbox_attempts
    add index outbox_attempts_consumer (consumer, failed_at), drop index outbox_attempts_failed')
    from information_schema.statistics
    where table_schema = database() and table_name = 'outbox_attempts' and index_name = 'outbox_attempts_consumer');
prepare outbox_step from @outbox_step;
execute outbox_step;
deallocate prepare outbox_step;

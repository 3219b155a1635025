-- Each consumer's ids and notes are pruned by its own window: what is old among them is found without a look at the others'.
CREATE INDEX outbox_inbox_consumer ON outbox_inbox (consumer, handled_at);
DROP INDEX outbox_inbox_handled;
CREATE INDEX outbox_attempts_consumer ON outbox_attempts (consumer, failed_at);
DROP INDEX outbox_attempts_failed;

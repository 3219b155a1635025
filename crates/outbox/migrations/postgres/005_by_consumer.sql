-- Each consumer's ids and notes are pruned by its own window: what is old among them is found without a look at the others'.
create index inbox_consumer_handled_at on outbox.inbox (consumer, handled_at);
drop index outbox.inbox_handled_at;
create index attempts_consumer_failed_at on outbox.attempts (consumer, failed_at);
drop index outbox.attempts_failed_at;

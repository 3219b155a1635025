-- How many are dead, and which waits longest, is asked every few seconds: neither may cost more where a million are set aside.
create index parked_state on outbox.parked (cursor, lane, state, seq);

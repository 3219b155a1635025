-- How many are dead, and which waits longest, is asked every few seconds: neither may cost more where a million are set aside.
CREATE INDEX outbox_parked_state ON outbox_parked (cursor, lane, state, seq);

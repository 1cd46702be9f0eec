-- Locks the row of a name until the transaction ends, for which it waits as long as the session's lock time-out allows.
-- No row is answered if there is none, and then nothing is locked.
--
-- Outside a transaction block the lock would end with the statement, and nobody would notice. In one, the transaction has
-- begun with an earlier statement. The number of the server's process is what an administrator needs to end the hold.
--
-- :1 name
-- answers: int int
SELECT CAST(CASE WHEN now() < statement_timestamp() THEN 1 ELSE 0 END AS bigint), CAST(pg_backend_pid() AS bigint)
FROM {table} WHERE name = :1 FOR UPDATE;

-- Locks the row of a name until the transaction ends, FOR UPDATE or, for a reader, FOR SHARE. It waits for that as long as the session's
-- lock time-out allows, or not at all with NOWAIT.
-- No row is answered if there is none, and then nothing is locked.
--
-- Outside a transaction block the lock would end with the statement, and nobody would notice. In one, what was set for it
-- when it began still is; the times of a transaction and of its statement tell nothing, for they differ also where a single
-- statement is bound and then executed. The number of the server's process is what an administrator needs to end the hold.
--
-- The time is that at which the row was locked, or a moment later: see enter.sql. What a statement selects is computed before it waits for
-- the lock, so the lock is taken in a query of its own. The outer one locks nothing; by its {lock} a proxy sends it where writes go.
--
-- :1 name
-- answers: int int int
WITH locked AS MATERIALIZED (SELECT FROM {table} WHERE name = :1 {lock} {nowait})
SELECT CAST(CASE WHEN current_setting('leasehold.transaction', true) = 'open' THEN 1 ELSE 0 END AS bigint),
       CAST(pg_backend_pid() AS bigint), {now}
FROM locked {lock};

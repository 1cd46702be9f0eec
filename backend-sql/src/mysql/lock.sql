-- Locks the row of a name until the transaction ends, FOR UPDATE or, for a reader, FOR SHARE. It waits for that as long as the session's
-- lock time-out allows, or not at all with NOWAIT.
-- No row is answered if there is none, and then, under READ COMMITTED, nothing is locked.
--
-- In autocommit the lock would end with the statement, and nobody would notice: so the session is asked as well. The
-- number of the connection is what an administrator needs to end the hold.
--
-- :1 name
-- answers: int int
SELECT @@autocommit = 0, CONNECTION_ID() FROM {table} WHERE name = :1 {lock} {nowait};

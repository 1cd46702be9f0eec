-- The number of the server's session that executes this, and a number that was drawn for this look and this connection:
-- nobody else has prepared the same statement, so who answers with another number has executed somebody else's.
-- answers: int int
SELECT CAST(pg_backend_pid() AS bigint), CAST({mark} AS bigint);

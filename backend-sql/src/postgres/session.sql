-- The number of the server's session that executes this.
-- answers: int
SELECT CAST(pg_backend_pid() AS bigint);

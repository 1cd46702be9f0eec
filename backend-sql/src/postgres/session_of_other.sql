-- As session.sql, and another statement to whoever keeps prepared statements by their text.
-- answers: int
SELECT CAST(pg_backend_pid() AS bigint) AS other;

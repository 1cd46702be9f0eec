-- A row if a connection is in a transaction that had begun by this time. Everybody sees the number of a session of another user, and its
-- transaction with the right to read all statistics: without it, the session may be in one.
--
-- :1 number of the connection   :2 time in microseconds   :3 its user: not needed here
-- answers: int
SELECT CAST(1 AS bigint) FROM pg_stat_activity
WHERE pid = :1 AND application_name = 'leasehold'
  AND (state IS NULL OR state = 'disabled' OR floor(extract(epoch FROM xact_start) * 1000000) <= :2);

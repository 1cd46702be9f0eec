-- A row if a connection is, or may be, in a transaction that began at this time or before. All users see the numbers of sessions; the
-- transactions of other users are seen with the right pg_read_all_stats, and without it a session may be in one.
--
-- :1 number of the connection   :2 time in microseconds   :3 its user: not needed here
-- answers: int
SELECT CAST(1 AS bigint) FROM pg_stat_activity
WHERE pid = :1 AND application_name = 'leasehold'
  AND (state IS NULL OR state = 'disabled' OR floor(extract(epoch FROM xact_start) * 1000000) <= :2);

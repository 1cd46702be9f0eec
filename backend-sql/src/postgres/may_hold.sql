-- A row if a connection may be still in the transaction that was under way when this token was given. Of the sessions of others,
-- without the right to read their statistics, only the numbers are seen: such a session may be.
--
-- :1 number of the connection   :2 token   :3 its user: not needed here
-- answers: int
SELECT CAST(1 AS bigint) FROM pg_stat_activity
WHERE pid = :1 AND application_name = 'leasehold'
  AND (state IS NULL OR state = 'disabled' OR floor(extract(epoch FROM xact_start) * 1000000) <= :2);

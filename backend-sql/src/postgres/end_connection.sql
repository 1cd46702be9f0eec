-- Ends a connection of ours, but only during the transaction that was under way when this token was given: the connection may hold
-- another lock by now.
--
-- :1 number of the connection   :2 token
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = :1 AND application_name = 'leasehold' AND floor(extract(epoch FROM xact_start) * 1000000) <= :2;

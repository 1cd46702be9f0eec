-- Wakes those who wait for a name.
--
-- :1 name
-- answers: int
SELECT CAST(1 AS bigint), pg_notify('{channel}', encode(:1, 'hex'));

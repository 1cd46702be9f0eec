-- The rows of names, and the time until the lease, or linger, of each ends.
--
-- :1 names
-- answers: bytes bytes int int int int text
SELECT name, owner, token, ends_at - {now}, acquired_at, version, holder
FROM {table} WHERE name IN ([:1]);

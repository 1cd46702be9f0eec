-- The rows of names, the time until the lease, or linger, of each ends, and the server's clock.
--
-- :1 names
-- answers: bytes bytes int int int int text int
SELECT name, owner, token, ends_at - {now}, acquired_at, version, holder, {now}
FROM {table} WHERE name IN ([:1]) {lock};

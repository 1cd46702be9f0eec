-- The rows of names, and the time until the lease, or linger, of each ends. With FOR UPDATE in {lock}, a proxy sends it where writes go.
--
-- :1 names
-- answers: bytes bytes int int int text
SELECT name, owner, token, ends_at - {now}, acquired_at, holder FROM {table} WHERE name IN ([:1]) {lock};

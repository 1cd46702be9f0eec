-- The rows of names, and the server's clock. With FOR UPDATE in {lock}, a proxy sends it where writes go; {version} then fails on a
-- server that takes no writes.
--
-- :1 names
-- answers: bytes bytes int int int text int text int
SELECT name, owner, token, ends_at, acquired_at, holder, {version}, sharers, {now} FROM {table} WHERE name IN ([:1]) {lock};

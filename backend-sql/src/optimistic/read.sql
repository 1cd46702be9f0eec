-- The row of a name with its version, and the server's clock.
-- answers: bytes bytes int int int int text int
SELECT name, owner, token, ends_at - {now}, acquired_at, version, holder, {now}
FROM {table} WHERE name = :1;

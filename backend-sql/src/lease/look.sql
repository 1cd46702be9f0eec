-- The row of a name, and the time until its lease, or linger, ends.
-- answers: bytes bytes int int int int text
SELECT name, owner, token, ends_at - {now}, acquired_at, version, holder
FROM {table} WHERE name = :1;

-- The row of a name.
SELECT name, owner, token, ends_at, linger_until, written_at, boot, acquired_at, holder, sharers
FROM {table} WHERE name = ?1;

-- The rows whose names begin with the bytes ?1, in the order of their bytes. ?2 is larger than all of them.
SELECT name, owner, token, ends_at, linger_until, written_at, boot, acquired_at, holder, sharers
FROM {table} WHERE name >= ?1 AND name < ?2 ORDER BY name;

-- The rows that are not free whose names begin with the bytes :1, in the order of their bytes. :2 is larger than all of them.
-- answers: bytes bytes int int int text int text int
SELECT name, owner, token, ends_at, acquired_at, holder, version, sharers, {now}
FROM {table} WHERE name >= :1 AND name < :2 AND ends_at > {now} ORDER BY name;

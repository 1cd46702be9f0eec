-- The entries of the names that begin with the bytes :1, in the order of the bytes, if an owner is entered. :2 is larger than all.
-- answers: bytes bytes int int int text text int
SELECT name, owner, token, acquired_at, connection, holder, sharers, {now} FROM {table}
WHERE name >= :1 AND name < :2 AND (owner IS NOT NULL OR sharers <> '{}') ORDER BY name;

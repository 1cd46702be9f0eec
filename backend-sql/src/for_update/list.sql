-- The holders of names that begin with the bytes :1, in the order of the bytes. :2 is larger than all of them.
-- answers: bytes bytes int int int text
SELECT name, owner, token, acquired_at, connection, holder FROM {table}
WHERE name >= :1 AND name < :2 AND owner IS NOT NULL ORDER BY name;

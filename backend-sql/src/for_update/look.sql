-- The last owner of a name, if it has not released it.
-- answers: bytes bytes int int int text
SELECT name, owner, token, acquired_at, connection, holder FROM {table} WHERE name = :1 AND owner IS NOT NULL;

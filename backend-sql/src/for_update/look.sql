-- Who locked the row of a name last, if it was not given back.
-- answers: bytes bytes int int int text
SELECT name, owner, token, acquired_at, connection, holder FROM {table} WHERE name = :1 AND owner IS NOT NULL;

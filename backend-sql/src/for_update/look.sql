-- What is entered of a name: the last token, the exclusive owner unless it has released it, the readers and the waiting writers, and
-- the server's time. With FOR UPDATE in {lock}, a proxy sends it where writes go.
--
-- :1 name
-- answers: bytes bytes int int int text text int
SELECT name, owner, token, acquired_at, connection, holder, sharers, {now} FROM {table} WHERE name = :1 {lock};

-- The row of a name, for a change of its readers, and the server's clock. With FOR UPDATE in {lock}, a proxy sends it where writes go.
-- answers: bytes int int int text int
SELECT owner, token, ends_at, {version}, sharers, {now} FROM {table} WHERE name = :1 {lock};

-- Enters the owner that has locked the row of a name exclusively, and answers a new token: max(last + 1, server clock in µs),
-- and 2^53 once they are used up. No reader is left, and the writers that wait leave their marks anew.
--
-- A statement that arrives late, after its client has given the row back, changes nothing if a later holder is entered, and answers no row:
-- the token of that one is at least the time of its grant, unless the server's clock was set back since.
--
-- Run outside the transaction that holds the lock, so that it stays when that one is rolled back: no token is given twice.
--
-- :1 name   :2 owner   :3 number of the connection   :4 holder   :5 the limit: a larger token is that of a later holder
-- answers: int
INSERT INTO {table} AS last (name, owner, token, acquired_at, connection, holder)
VALUES (:1, :2, {now}, {now}, :3, :4)
ON CONFLICT (name) DO UPDATE SET
    token       = greatest(least(last.token, 9007199254740991) + 1, {now}),
    owner       = excluded.owner,
    acquired_at = excluded.acquired_at,
    connection  = excluded.connection,
    holder      = excluded.holder,
    sharers     = NULL
WHERE last.token <= :5
RETURNING token;

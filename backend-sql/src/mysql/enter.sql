-- Enters the owner that has locked the row of a name exclusively, and answers a new token in LAST_INSERT_ID(): max(last + 1, server clock in µs),
-- and 2^53 once they are used up. No reader is left, and the writers that wait leave their marks anew.
--
-- Run outside the transaction that holds the lock, so that it stays when that one is rolled back: no token is given twice.
--
-- :1 name   :2 owner   :3 number of the connection   :4 holder
INSERT INTO {table} (name, owner, token, acquired_at, connection, holder)
VALUES (:1, :2, LAST_INSERT_ID({now}), {now} - 1 + {one_if_writable}, :3, :4)
ON DUPLICATE KEY UPDATE
    token       = LAST_INSERT_ID(GREATEST(LEAST(token, 9007199254740991) + 1, {now})),
    owner       = VALUES(owner),
    acquired_at = VALUES(acquired_at),
    connection  = VALUES(connection),
    holder      = VALUES(holder),
    sharers     = NULL;

-- Enters the owner that has locked the row of a name exclusively, and answers a new token in LAST_INSERT_ID(): max(last + 1, server clock in µs),
-- and 2^53 once they are used up. No reader is left, and the writers that wait leave their marks anew.
--
-- A statement that arrives late, after its client has given the row back, changes nothing if a later holder is entered, and answers 2^53 + 1:
-- the token of that one is at least the time of its grant, unless the server's clock was set back since.
--
-- Run outside the transaction that holds the lock, so that it stays when that one is rolled back: no token is given twice.
--
-- The values are assigned from left to right (MySQL manual, "INSERT statement"), so that the others read the decision of the first in LAST_INSERT_ID().
--
-- :1 name   :2 owner   :3 number of the connection   :4 holder   :5 the limit: a larger token is that of a later holder
INSERT INTO {table} (name, owner, token, acquired_at, connection, holder)
VALUES (:1, :2, LAST_INSERT_ID({now}), {now} - 1 + {one_if_writable}, :3, :4)
ON DUPLICATE KEY UPDATE
    token       = IF(token <= :5, LAST_INSERT_ID(GREATEST(LEAST(token, 9007199254740991) + 1, {now})),
                     token + 0 * LAST_INSERT_ID(9007199254740993)),
    owner       = IF(LAST_INSERT_ID() <= 9007199254740992, VALUES(owner), owner),
    acquired_at = IF(LAST_INSERT_ID() <= 9007199254740992, VALUES(acquired_at), acquired_at),
    connection  = IF(LAST_INSERT_ID() <= 9007199254740992, VALUES(connection), connection),
    holder      = IF(LAST_INSERT_ID() <= 9007199254740992, VALUES(holder), holder),
    sharers     = IF(LAST_INSERT_ID() <= 9007199254740992, NULL, sharers);

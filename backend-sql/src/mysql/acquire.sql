-- Grants the row of a name to an owner, if it is free, and answers its token in LAST_INSERT_ID(); 0 if it is not free.
--
-- Free: there is no such row, or its lease, or linger, is over. Held by this very owner, because the reply to an earlier
-- attempt was lost: granted again, with the same token. The primary key makes two rows of one name impossible, and the
-- lock of the row is taken before the part behind ON DUPLICATE KEY is worked out: of all that ask, one is granted.
-- The token grows with every grant, by one at least, and up to the time; it ends at 2^53 - 1.
--
-- The assignments are made from left to right (MySQL manual, "UPDATE statement"), and each sees what those before it
-- have made: once the first has decided, token = LAST_INSERT_ID() says "granted", unless it is the 0 of a row that was
-- written by hand. Not the number of changed rows, which means something else with CLIENT_FOUND_ROWS; not RETURNING, which
-- MySQL does not know.
--
-- :1 name   :2 owner   :3 ttl in microseconds   :4 holder
INSERT INTO {table} (name, owner, token, ends_at, acquired_at, version, holder)
VALUES (:1, :2, LAST_INSERT_ID({now}), {now} + :3, {now}, {now}, :4)
ON DUPLICATE KEY UPDATE
    token = CASE
        WHEN owner = VALUES(owner) AND ends_at > {now} THEN LAST_INSERT_ID(token)
        WHEN ends_at <= {now} AND token < 9007199254740991 THEN LAST_INSERT_ID(GREATEST(token + 1, {now}))
        ELSE token + LAST_INSERT_ID(0)
    END,
    acquired_at = IF(token = LAST_INSERT_ID() AND token > 0 AND NOT owner <=> VALUES(owner), {now}, acquired_at),
    holder      = IF(token = LAST_INSERT_ID() AND token > 0, VALUES(holder), holder),
    ends_at     = IF(token = LAST_INSERT_ID() AND token > 0, GREATEST(ends_at, {now} + :3), ends_at),
    version     = IF(token = LAST_INSERT_ID() AND token > 0, version + 1, version),
    owner       = IF(token = LAST_INSERT_ID() AND token > 0, VALUES(owner), owner);

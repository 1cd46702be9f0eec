-- Grants the row of a name to an owner if it is free, and answers the token in LAST_INSERT_ID(). Three answers are no tokens: 2^53 if
-- an owner holds the row or keeps it after a release, 2^53 + 1 if readers hold it or the client gave up (:5), 2^53 + 2 if no token is left.
--
-- Invariant: at most one unexpired owner per name, and every grant has a larger token than the one before. The primary key
-- allows one row per name, and the row is locked before ON DUPLICATE KEY UPDATE reads it.
--
-- A row is free if it is missing or if its lease, or linger, has ended. A new token is max(last + 1, server clock in µs), at
-- most 2^53 - 1. An owner that holds the row already (the reply to its first attempt was lost) gets the same token again.
--
-- MySQL and MariaDB assign from left to right (MySQL manual, "INSERT Statement" and "UPDATE Statement"). In VALUES, `token` is that of
-- the new row: the clock. After UPDATE, the first assignment decides, and the others read its decision in LAST_INSERT_ID(). The number
-- of changed rows would not tell: it depends on CLIENT_FOUND_ROWS. A refusal is answered as a number too, since MariaDB answers 0
-- whenever a trigger has run in the statement.
--
-- :1 name   :2 owner   :3 ttl in microseconds   :4 holder   :5 how long the client waits, in microseconds: a later grant has no holder
INSERT INTO {table} (name, owner, token, ends_at, acquired_at, version, holder)
VALUES (:1, :2, LAST_INSERT_ID({now}), token + :3, token, token - 1 + {one_if_writable}, :4)
ON DUPLICATE KEY UPDATE
    token = CASE
        WHEN ends_at > {now} THEN IF(owner = VALUES(owner), LAST_INSERT_ID(token),
            token + 0 * LAST_INSERT_ID(9007199254740992 + (owner <=> 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF)))
        WHEN token < 9007199254740991 AND TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)) < :5
            THEN LAST_INSERT_ID(GREATEST(token + 1, {now}))
        ELSE token + 0 * LAST_INSERT_ID(9007199254740993 + (token >= 9007199254740991))
    END,
    acquired_at = IF(LAST_INSERT_ID() < 9007199254740992, {now}, acquired_at),
    ends_at     = IF(LAST_INSERT_ID() < 9007199254740992, GREATEST(ends_at, acquired_at + :3), ends_at),
    version     = IF(LAST_INSERT_ID() < 9007199254740992, version + 1, version),
    holder      = IF(LAST_INSERT_ID() < 9007199254740992, VALUES(holder), holder),
    owner       = IF(LAST_INSERT_ID() < 9007199254740992, VALUES(owner), owner);

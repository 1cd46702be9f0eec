-- Grants the row of a name to an owner, if it is free, and answers in LAST_INSERT_ID() four times its first token, and what
-- came: 1 as many tokens in a row as were wanted, 2 that one alone, 3 those that it has already; 4 alone if it is not free.
-- That is said too, so that 0 is no answer: what MariaDB tells if a trigger ran in the statement.
--
-- Free: there is no such row, or its lease, or linger, is over. Held by this very owner, because the reply to an earlier
-- attempt was lost: granted again, with the same token. The primary key makes two rows of one name impossible, and the
-- lock of the row is taken before the part behind ON DUPLICATE KEY is worked out: of all that ask, one is granted.
-- The token grows with every grant, by one at least, and up to the time; it ends at 2^53 - 1. Several in a row are reserved
-- if the clock has passed the last one. Which of them the row has, and what its time says, is in `lease/tokens.rs`.
--
-- The assignments are made from left to right (MySQL manual, "UPDATE statement"), and each sees what those before it
-- have made; so do the values of a new row ("INSERT statement"). Once the first assignment has decided, LAST_INSERT_ID() says
-- "granted". Not the number of changed rows, which means something else with CLIENT_FOUND_ROWS; not RETURNING, which
-- MySQL does not know. A time that is compared with its token is assigned before, so that it is that of one look at the clock:
-- it may be set between two, or the server stand still.
--
-- :1 name   :2 owner   :3 ttl in microseconds   :4 holder   :5 tokens wanted behind the first
INSERT INTO {table} (name, owner, token, ends_at, acquired_at, version, holder)
VALUES (:1, :2, LAST_INSERT_ID(4 * {now} + 1) DIV 4 + :5, {now} + :3, token - :5, acquired_at, :4)
ON DUPLICATE KEY UPDATE
    token = CASE
        WHEN owner = VALUES(owner) AND ends_at > {now}
            THEN token + 0 * LAST_INSERT_ID(4 * IF(token - acquired_at BETWEEN 0 AND 1023, acquired_at, token) + 3)
        WHEN ends_at <= {now} AND token < VALUES(acquired_at)
            THEN LAST_INSERT_ID(4 * VALUES(acquired_at) + 1) DIV 4 + :5
        WHEN ends_at <= {now} AND token < 9007199254740991
            THEN LAST_INSERT_ID(4 * GREATEST(token + 1, {now}) + 2) DIV 4
        ELSE token + 0 * LAST_INSERT_ID(4)
    END,
    acquired_at = CASE LAST_INSERT_ID() % 4
        WHEN 1 THEN VALUES(acquired_at)
        WHEN 2 THEN {now}
        ELSE acquired_at
    END,
    acquired_at = IF(LAST_INSERT_ID() % 4 = 2 AND token - acquired_at BETWEEN 0 AND 2000, token, acquired_at),
    holder      = IF(LAST_INSERT_ID() % 4 > 0, VALUES(holder), holder),
    ends_at     = IF(LAST_INSERT_ID() % 4 > 0, GREATEST(ends_at, {now} + :3), ends_at),
    version     = IF(LAST_INSERT_ID() % 4 > 0, version + 1, version),
    owner       = IF(LAST_INSERT_ID() % 4 > 0, VALUES(owner), owner);

-- Enters a reader that has locked the row of a name, and answers a new token in LAST_INSERT_ID(), made and run as enter.sql. The token is
-- the key of the reader in `sharers`. If an exclusive owner is entered, it has left, because its lock of the row would exclude this reader; or this
-- statement arrives late.
--
-- The values are assigned from left to right, as in enter.sql; the last one reads the new token.
--
-- :1 name   :2 owner, in hexadecimal   :3 number of the connection   :4 holder   :5 the limit: an exclusive owner with a larger token has come later
INSERT INTO {table} (name, owner, token, acquired_at, connection, holder, sharers)
VALUES (:1, NULL, LAST_INSERT_ID({now}), token - 1 + {one_if_writable}, 0, '',
        JSON_OBJECT(CONCAT(token), JSON_OBJECT('mode', 'shared', 'token', token, 'acquired_at', token,
                                               'owner', :2, 'connection', :3, 'holder', :4, 'user', CURRENT_USER())))
ON DUPLICATE KEY UPDATE
    token   = IF(owner IS NULL OR token <= :5, LAST_INSERT_ID(GREATEST(LEAST(token, 9007199254740991) + 1, {now})),
                 token + 0 * LAST_INSERT_ID(9007199254740993)),
    owner   = IF(LAST_INSERT_ID() <= 9007199254740992, NULL, owner),
    holder  = IF(LAST_INSERT_ID() <= 9007199254740992, '', holder),
    sharers = IF(LAST_INSERT_ID() <= 9007199254740992,
                 JSON_SET(COALESCE(sharers, '{}'), CONCAT('$."', token, '"'),
                          JSON_OBJECT('mode', 'shared', 'token', token, 'acquired_at', {now},
                                      'owner', :2, 'connection', :3, 'holder', :4, 'user', CURRENT_USER())), sharers);

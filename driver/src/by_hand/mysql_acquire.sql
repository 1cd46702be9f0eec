-- Grants the row of a name if its lease has ended, with a token that is larger by one; no row is changed if it is held.
-- ? name, owner, lease in microseconds
INSERT INTO {table} (name, owner, token, ends_at, acquired_at, version, holder)
VALUES (?, ?, 1, ? + UNIX_TIMESTAMP(NOW(6)) * 1000000, 0, 0, '')
ON DUPLICATE KEY UPDATE
    token   = IF(ends_at <= UNIX_TIMESTAMP(NOW(6)) * 1000000, LAST_INSERT_ID(token + 1), token),
    owner   = IF(ends_at <= UNIX_TIMESTAMP(NOW(6)) * 1000000, VALUES(owner), owner),
    ends_at = IF(ends_at <= UNIX_TIMESTAMP(NOW(6)) * 1000000, VALUES(ends_at), ends_at);

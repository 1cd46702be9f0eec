-- Ends one grant, known by its token, whoever holds it, and the linger after it; the number of changed rows says whether there was
-- something to end. A later grant is not touched, and the next token will be larger. The last line is that of release.sql.
--
-- :1 name   :2 token
UPDATE {table} SET ends_at = 0, owner = NULL, version = version + {one_if_writable}, holder = ''
WHERE name = :1 AND token = :2 AND ends_at > {now}
{returning} CASE WHEN wanted_until > {now} THEN {notify} END;

-- Enters a reader that has locked the row of a name, and answers a new token, made and run as enter.sql. The token is the key of
-- the reader in `sharers`. If an exclusive owner is entered, it has left, because its lock of the row would exclude this reader; or this
-- statement arrives late.
--
-- :1 name   :2 owner, in hexadecimal   :3 number of the connection   :4 holder   :5 the limit: an exclusive owner with a larger token has come later
-- answers: int
INSERT INTO {table} AS last (name, owner, token, acquired_at, connection, holder, sharers)
SELECT :1, NULL, now, now, 0, '',
       jsonb_build_object(now, jsonb_build_object('mode', 'shared', 'token', now, 'acquired_at', now,
                                                  'owner', :2, 'connection', :3, 'holder', :4))
FROM (SELECT {now} AS now) AS clock
ON CONFLICT (name) DO UPDATE SET owner = NULL, holder = '', (token, sharers) = (
    SELECT next, coalesce(CAST(last.sharers AS jsonb), '{}')
           || jsonb_build_object(next, jsonb_build_object('mode', 'shared', 'token', next, 'acquired_at', {now},
                                                          'owner', :2, 'connection', :3, 'holder', :4))
    FROM (SELECT greatest(least(last.token, 9007199254740991) + 1, {now}) AS next) AS token
)
WHERE last.owner IS NULL OR last.token <= :5
RETURNING token;

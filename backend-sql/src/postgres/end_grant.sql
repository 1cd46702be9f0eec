-- Ends one grant, known by its token, whoever holds it, and the linger after it, and sends a message if the row is
-- marked; a row says that there was something to end. A later grant is not touched, and the next token will be larger.
--
-- :1 name   :2 token
-- answers: int
WITH freed AS (
    UPDATE {table} SET ends_at = 0, owner = NULL, version = version + 1, holder = ''
    WHERE name = :1 AND token = :2 AND ends_at > {now}
    RETURNING name, wanted_until
)
SELECT CAST(1 AS bigint), CASE WHEN wanted_until > {now} THEN {notify} END FROM freed;

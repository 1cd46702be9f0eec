-- Ends one grant, known by its token, of any owner, and the linger after it, if there is something to end. A later grant is not
-- touched, and the next token will be larger.
--
-- ?1 host time now   ?2 name   ?3 token
UPDATE {table} SET ends_at = 0, linger_until = 0
WHERE name = ?2 AND token = ?3 AND (ends_at > ?1 OR linger_until > ?1);

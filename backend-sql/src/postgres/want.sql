-- Says that somebody waits for a lock: whoever gives it up within two seconds wakes those who wait. Answers 1 if that
-- was said, or had been said a moment ago; 0 if nobody holds the lock any more, and waiting would be in vain.
--
-- :1 name
-- answers: int
WITH said AS (
    UPDATE {table} SET wanted_until = {now} + 2000000
    WHERE name = :1 AND ends_at > {now} AND wanted_until <= {now} + 1000000
    RETURNING 1
)
SELECT CAST(CASE WHEN EXISTS (SELECT FROM said) OR EXISTS (
    SELECT FROM {table} WHERE name = :1 AND ends_at > {now} AND wanted_until > {now} + 1000000
) THEN 1 ELSE 0 END AS bigint);

-- Deletes the first of the names from ?1 on and before ?2 that are free and whose tokens are older than ?4, and answers them: not all,
-- because other statements wait meanwhile. A lease of an earlier boot that seems to go on is kept.
--
-- ?3 host time now   ?4 Unix time in microseconds
DELETE FROM {table} WHERE name IN (
    SELECT name FROM {table} WHERE name >= ?1 AND name < ?2 AND ends_at <= ?3 AND linger_until <= ?3 AND token <= ?4
    ORDER BY name LIMIT 1024
) RETURNING name;

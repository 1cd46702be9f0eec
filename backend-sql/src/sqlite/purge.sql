-- Deletes a few rows whose names begin with the bytes ?1, if nobody holds them and their tokens are older than ?4; answers
-- a row for each. ?2 is larger than all of those names. A lease of an earlier boot that seems to go on is kept.
--
-- ?3 host time now   ?4 Unix time in microseconds
DELETE FROM {table} WHERE name IN (
    SELECT name FROM {table}
    WHERE name >= ?1 AND name < ?2 AND ends_at <= ?3 AND linger_until <= ?3 AND token <= ?4
    LIMIT 128
) RETURNING 1;

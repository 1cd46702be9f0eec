-- The same as release.sql for one claim, without a table of claims and one of answers; the number of changed rows says whether the
-- claim held.
--
-- ?1 name   ?2 owner   ?3 end of the linger   ?4 host time now   ?5 boot id
UPDATE {table} SET
    ends_at      = 0,
    linger_until = ?3,
    written_at   = ?4,
    boot         = ?5
WHERE name = ?1 AND owner = ?2 AND ends_at > ?4;

-- What release.sql does, for one claim: without the tables of claims and of answers, which SQLite would have to make and to
-- read. Whether the claim held is told by the number of changed rows.
--
-- ?1 host time now   ?2 boot id   ?3 name   ?4 owner   ?5 until when others are kept out
UPDATE {table} SET
    ends_at      = 0,
    linger_until = ?5,
    written_at   = ?1,
    boot         = ?2
WHERE name = ?3 AND owner = ?4 AND ends_at > ?1;

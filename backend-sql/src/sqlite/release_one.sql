-- What release.sql does, for one claim: without the tables of claims and of answers, which SQLite would have to make and to
-- read. Whether the claim held is told by the number of changed rows.
--
-- ?1 name   ?2 owner   ?3 until when others are kept out   ?4 host time now   ?5 boot id
UPDATE {table} SET
    ends_at      = 0,
    linger_until = ?3,
    written_at   = ?4,
    boot         = ?5
WHERE name = ?1 AND owner = ?2 AND ends_at > ?4;

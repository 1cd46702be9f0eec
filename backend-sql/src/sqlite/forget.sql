-- Deletes the rows of names that are free. A lease of an earlier boot that seems to go on is kept.
--
-- ?1 a JSON array of names in hex   ?2 host time now
DELETE FROM {table}
WHERE name IN (SELECT unhex(value) FROM json_each(?1)) AND ends_at <= ?2 AND linger_until <= ?2;

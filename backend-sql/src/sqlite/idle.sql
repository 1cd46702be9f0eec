-- Counts the rows that purge.sql would delete in the end, with the same parameters.
SELECT count(*) FROM {table} WHERE name >= ?1 AND name < ?2 AND ends_at <= ?3 AND linger_until <= ?3 AND token <= ?4;

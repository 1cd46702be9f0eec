-- The last of some names from ?1 on and before ?2: as many as are looked at in one statement, behind which others wait.
SELECT max(name) FROM (SELECT name FROM {table} WHERE name >= ?1 AND name < ?2 ORDER BY name LIMIT 1024);

-- The columns of a table as its definition would say them, and their names again if they are in its primary key.
-- answers: text text text
SELECT CAST(a.attname AS text),
       format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END,
       CASE WHEN a.attnum = ANY (i.indkey) THEN CAST(a.attname AS text) END
FROM pg_attribute AS a
LEFT JOIN pg_index AS i ON i.indrelid = a.attrelid AND i.indisprimary
WHERE a.attrelid = to_regclass(:2) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum;

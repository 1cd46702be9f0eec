-- The columns of a table as its definition would say them, and their places in its primary key.
-- answers: text text int
SELECT CAST(a.attname AS text),
       format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END,
       CAST(array_position(CAST(i.indkey AS int2[]), a.attnum) AS bigint)
FROM pg_attribute AS a
LEFT JOIN pg_index AS i ON i.indrelid = a.attrelid AND i.indisprimary
WHERE a.attrelid = to_regclass(:1) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum;

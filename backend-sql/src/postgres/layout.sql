-- What a table consists of: its storage, and its columns as a definition would say them; no row if it is not there.
-- answers: text
SELECT CASE WHEN relkind NOT IN ('r', 'p') THEN 'no rows of its own'
            WHEN relpersistence = 'p' THEN 'permanent rows'
            WHEN relpersistence = 'u' THEN 'UNLOGGED rows, which a crash of the server deletes'
            ELSE 'temporary rows' END
FROM pg_class WHERE oid = to_regclass(:2)
UNION ALL
SELECT CAST(a.attname AS text) || ' ' || format_type(a.atttypid, a.atttypmod)
       || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
       || CASE WHEN a.attnum = ANY (i.indkey) THEN ' primary key' ELSE '' END
FROM pg_attribute AS a
LEFT JOIN pg_index AS i ON i.indrelid = a.attrelid AND i.indisprimary
WHERE a.attrelid = to_regclass(:2) AND a.attnum > 0 AND NOT a.attisdropped;

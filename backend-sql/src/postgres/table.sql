-- What is wrong with a relation, by its kind and persistence; NULL if it is a table like ours. An unlogged table is emptied when the
-- server crashes.
-- answers: text
SELECT CASE CAST(relkind AS text) || CAST(relpersistence AS text)
           WHEN 'rp' THEN NULL
           WHEN 'pp' THEN NULL
           WHEN 'ru' THEN 'it is UNLOGGED: a crash of the server would empty it'
           WHEN 'rt' THEN 'it is a temporary table'
           ELSE 'it is no table'
       END
FROM pg_class WHERE oid = to_regclass(:2);

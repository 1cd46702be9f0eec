-- What kind of relation a name is, and whether it is persistent, as two letters.
-- answers: text
SELECT CAST(relkind AS text) || CAST(relpersistence AS text) FROM pg_class WHERE oid = to_regclass(:1);

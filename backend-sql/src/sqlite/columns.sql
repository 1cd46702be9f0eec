-- The name and the definition of each column of a table, hidden ones too.
SELECT name, type || iif("notnull", ' NOT NULL', '') || iif(pk > 0, ' PRIMARY KEY', '')
FROM pragma_table_xinfo(?1) ORDER BY cid;

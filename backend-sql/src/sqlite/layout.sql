-- What stands under a name: a table or a view, its triggers by their names, and its columns as a definition would say them.
SELECT iif(type = 'trigger', 'trigger ' || name, type) FROM sqlite_schema WHERE tbl_name = ?1 COLLATE NOCASE AND type <> 'index'
UNION ALL
SELECT name || ' ' || type || iif("notnull", ' NOT NULL', '') || iif(pk > 0, ' PRIMARY KEY', '') FROM pragma_table_xinfo(?1);

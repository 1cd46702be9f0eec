-- The columns of a table, hidden ones too.
SELECT name, type, "notnull", pk FROM pragma_table_xinfo(?1) ORDER BY cid;

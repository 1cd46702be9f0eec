-- The kind, name and statement of each object with the table's name: the table or view itself, and the triggers and indexes on it.
SELECT type, name, sql FROM sqlite_schema WHERE tbl_name = ?1 COLLATE NOCASE;

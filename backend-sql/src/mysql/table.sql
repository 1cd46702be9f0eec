-- The engine of a table, and what kind of table it is.
-- answers: text text
SELECT engine, table_type FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = :1;

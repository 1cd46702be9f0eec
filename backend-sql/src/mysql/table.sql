-- What is wrong with a table, by its kind and engine; NULL if it is one like ours.
-- answers: text
SELECT CASE
           WHEN table_type <> 'BASE TABLE' THEN CONCAT('it is a ', LOWER(table_type))
           WHEN COALESCE(engine, 'none') <> 'InnoDB'
           THEN CONCAT('its engine is ', COALESCE(engine, 'none'), ' and should be InnoDB')
       END
FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = :1;

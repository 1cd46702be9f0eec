-- What a table consists of: its kind and engine, and its columns as a definition would say them; no row if it is not there.
--
-- A column is in the primary key with a length, if only so many bytes of it are, by which names that begin alike would be one. A column
-- of another unique key is said to be unique: a grant would meet the row of another name there, and ON DUPLICATE KEY takes any row that
-- is met. A key of an expression has no column, and is said of all of them.
-- MySQL from 8.0.19 on says bigint where MariaDB says bigint(20): the width was never more than a hint for printing.
-- answers: text
SELECT CAST(CONCAT(table_type, ' of ', COALESCE(engine, 'no engine')) AS CHAR)
FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = :1
UNION ALL
SELECT CAST(CONCAT(
    c.column_name, ' ',
    IF(c.data_type = 'bigint', REPLACE(LOWER(c.column_type), '(20)', ''), LOWER(c.column_type)),
    IF(c.collation_name IS NULL, '', CONCAT(' ', c.collation_name)),
    IF(c.is_nullable = 'NO', ' not null', ''),
    COALESCE((SELECT CONCAT(' primary key', IF(k.sub_part IS NULL, '', CONCAT('(', k.sub_part, ')')))
              FROM information_schema.statistics AS k WHERE k.table_schema = DATABASE() AND k.table_name = :1
              AND k.index_name = 'PRIMARY' AND k.column_name = c.column_name), ''),
    IF(EXISTS (SELECT 1 FROM information_schema.statistics AS u WHERE u.table_schema = DATABASE() AND u.table_name = :1
               AND (u.column_name = c.column_name OR u.column_name IS NULL) AND u.non_unique = 0 AND u.index_name <> 'PRIMARY'),
       ' unique', '')) AS CHAR)
FROM information_schema.columns AS c WHERE c.table_schema = DATABASE() AND c.table_name = :1;

-- The columns of a table as its definition would say them, and how they stand in its primary key: with a length, if only so
-- many bytes of them do, by which names that begin alike would be one.
-- A column of another unique key is said to be unique: a grant would meet the row of another name there, and ON DUPLICATE KEY
-- takes any row that is met. A key of an expression has no column, and is said of all of them.
-- MySQL from 8.0.19 on says bigint where MariaDB says bigint(20): the width was never more than a hint for printing.
-- answers: text text text
SELECT c.column_name,
       CONCAT(IF(c.data_type = 'bigint', REPLACE(LOWER(c.column_type), '(20)', ''), LOWER(c.column_type)),
              IF(c.collation_name IS NULL, '', CONCAT(' ', c.collation_name)),
              IF(c.is_nullable = 'NO', ' not null', ''),
              IF(EXISTS (SELECT 1 FROM information_schema.statistics AS u
                         WHERE u.table_schema = DATABASE() AND u.table_name = :1
                           AND (u.column_name = c.column_name OR u.column_name IS NULL)
                           AND u.non_unique = 0 AND u.index_name <> 'PRIMARY'), ' unique', '')),
       (SELECT CONCAT(k.column_name, IF(k.sub_part IS NULL, '', CONCAT('(', k.sub_part, ')')))
        FROM information_schema.statistics AS k
        WHERE k.table_schema = DATABASE() AND k.table_name = :1
          AND k.index_name = 'PRIMARY' AND k.column_name = c.column_name)
FROM information_schema.columns AS c
WHERE c.table_schema = DATABASE() AND c.table_name = :1
ORDER BY c.ordinal_position;

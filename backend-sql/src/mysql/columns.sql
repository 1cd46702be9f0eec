-- The columns of a table as its definition would say them, and whether they are in its primary key.
-- MySQL from 8.0.19 on says bigint where MariaDB says bigint(20): the width was never more than a hint for printing.
-- answers: text text text
SELECT column_name,
       CONCAT(IF(data_type = 'bigint', REPLACE(LOWER(column_type), '(20)', ''), LOWER(column_type)),
              IF(collation_name IS NULL, '', CONCAT(' ', collation_name)),
              IF(is_nullable = 'NO', ' not null', '')),
       column_key
FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = :1
ORDER BY ordinal_position;

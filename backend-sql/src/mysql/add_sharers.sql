-- Schema 2 added this column. A program that knows schema 1 refuses the table from then on.
ALTER TABLE {table} ADD COLUMN sharers MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL;

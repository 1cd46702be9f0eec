-- Schema 2 added this column. A program that knows schema 1 refuses the table from then on.
ALTER TABLE {table} ADD COLUMN IF NOT EXISTS sharers text NULL;

-- The last token of a name, whoever has it or had it.
-- answers: int
SELECT token FROM {table} WHERE name = :1;

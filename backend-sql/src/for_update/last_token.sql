-- The last token of a name, of its present holder or of an earlier one.
-- answers: int
SELECT token FROM {table} WHERE name = :1;

-- Explained and not executed, which takes the same rights, to read and to add, and fires no trigger.
EXPLAIN INSERT INTO {table} SELECT * FROM {table} WHERE 1 = 0;

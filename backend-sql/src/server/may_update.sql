-- Explained and not executed, which takes the same rights, to read and to change, and fires no trigger.
EXPLAIN UPDATE {table} SET name = name WHERE 1 = 0;

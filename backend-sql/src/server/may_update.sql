-- Changes nothing, and needs the rights to read and to change.
UPDATE {table} SET name = name WHERE 1 = 0;

-- Changes nothing, and needs the rights to read and to add.
INSERT INTO {table} SELECT * FROM {table} WHERE 1 = 0;

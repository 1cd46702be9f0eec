-- Deletes the row of a name, by the transaction that has it locked. Whoever waits for it finds none, and makes it anew.
DELETE FROM {table} WHERE name = :1;

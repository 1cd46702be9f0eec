-- Deletes the row of a name, by the transaction that has it locked. A waiter finds none then, and makes it anew.
DELETE FROM {table} WHERE name = :1;

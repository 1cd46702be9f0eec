-- Deletes the rows of names. ?1 a JSON array of names in hex
DELETE FROM {table} WHERE name IN (SELECT unhex(value) FROM json_each(?1));

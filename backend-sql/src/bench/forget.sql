-- Deletes the rows of names that nobody uses any more, and with them their last tokens.
--
-- [:1] names
DELETE FROM {table} WHERE name IN ([:1]);

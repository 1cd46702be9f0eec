-- Ends the lease of an owner.
-- ? name, owner
UPDATE {table} SET owner = NULL, ends_at = 0 WHERE name = ? AND owner = ?;

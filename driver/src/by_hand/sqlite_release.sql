-- Ends the lease of an owner.
-- ?1 name   ?2 owner
UPDATE {table} SET ends_at = 0 WHERE name = ?1 AND owner = ?2;

-- Ends the lease of an owner, and sends a message.
-- $1 name   $2 owner   $3 channel
WITH freed AS (UPDATE {table} SET owner = NULL, ends_at = 0 WHERE name = $1 AND owner = $2 RETURNING name)
SELECT pg_notify($3, '') FROM freed;

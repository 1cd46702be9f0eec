-- Extends the lease of each claim whose owner holds it now, and answers which those were.
--
-- A lease that has ended is not brought back, another owner's is not touched, none is shortened, no token changes.
--
-- ?1 host time now   ?2 boot id
WITH claim (name, owner, ends_at) AS (VALUES {claims})
UPDATE {table} AS lease SET
    ends_at    = max(lease.ends_at, claim.ends_at),
    written_at = ?1,
    boot       = ?2
FROM claim
WHERE lease.name = claim.name AND lease.owner = claim.owner AND lease.ends_at > ?1
RETURNING owner, token;

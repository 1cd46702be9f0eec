-- Extends the lease of each claim whose owner holds it now, and answers which those were.
--
-- A lease that has ended is not brought back, another owner's is not touched, none is shortened, no token changes.
-- A claim may come twice, from the keeper and from a holder who extends it, and both are told yes: an UPDATE takes only
-- one of several rows that it is joined with, so the longer of the two is found first.
--
-- :1 host time now   :2 boot id
WITH claim (name, owner, ends_at) AS (VALUES {claims})
UPDATE {table} AS lease SET
    ends_at    = max(lease.ends_at, claim.ends_at),
    written_at = :1,
    boot       = :2
FROM (SELECT name, owner, max(ends_at) AS ends_at FROM claim GROUP BY name, owner) AS claim
WHERE lease.name = claim.name AND lease.owner = claim.owner AND lease.ends_at > :1
RETURNING owner;

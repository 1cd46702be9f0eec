-- Ends the lease of each claim whose owner holds it now, and answers which those were.
--
-- Others are kept out until linger_until. The owner stays in the row and holds nothing any more.
--
-- :1 host time now   :2 boot id
WITH claim (name, owner, linger_until) AS (VALUES {claims})
UPDATE {table} AS lease SET
    ends_at      = 0,
    linger_until = claim.linger_until,
    written_at   = :1,
    boot         = :2
FROM claim
WHERE lease.name = claim.name AND lease.owner = claim.owner AND lease.ends_at > :1
RETURNING owner;

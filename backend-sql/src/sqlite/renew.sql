-- Extends the lease of each claim whose owner holds it now, and answers the owner and the token of each.
--
-- A lease that has ended is not brought back, another owner's is not touched, none is shortened, no token changes.
-- A claim may come twice, from the keeper and from a holder who extends it, and both are told yes: an UPDATE takes only
-- one of several rows that it is joined with, so the longer of the two is found first.
--
-- ?1 claims: a JSON array of [name in hex, owner in hex, end of the lease]   ?2 host time now   ?3 boot id
UPDATE {table} AS lease SET
    ends_at    = max(lease.ends_at, claim.ends_at),
    written_at = ?2,
    boot       = ?3
FROM (
    SELECT unhex(value ->> 0) AS name, unhex(value ->> 1) AS owner, max(value ->> 2) AS ends_at
    FROM json_each(?1) GROUP BY 1, 2
) AS claim
WHERE lease.name = claim.name AND lease.owner = claim.owner AND lease.ends_at > ?2
RETURNING owner, token;

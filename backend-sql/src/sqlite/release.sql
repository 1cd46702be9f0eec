-- Ends the lease of each claim whose owner holds it now, and answers the owner and the token of each.
--
-- Others are kept out until the linger ends. The owner stays in the row and holds nothing any more.
--
-- ?1 claims: a JSON array of [name in hex, owner in hex, end of the linger]   ?2 host time now   ?3 boot id
UPDATE {table} AS lease SET
    ends_at      = 0,
    linger_until = claim.value ->> 2,
    written_at   = ?2,
    boot         = ?3
FROM json_each(?1) AS claim
WHERE lease.name = unhex(claim.value ->> 0) AND lease.owner = unhex(claim.value ->> 1) AND lease.ends_at > ?2
RETURNING owner, token;

-- Grants the row of a name to an owner, if it is free, and answers its token; no row if it is not free.
--
-- Free: there is no such row, or its lease, or linger, is over. Held by this very owner, because the reply to an earlier
-- attempt was lost: granted again, with the same token. The primary key makes two rows of one name impossible, and under
-- READ COMMITTED the condition is worked out on the row as it is once its lock is had: of all that ask, one is granted.
-- The token grows with every grant, by one at least, and up to the time; it ends at 2^53 - 1.
--
-- :1 name   :2 owner   :3 ttl in microseconds   :4 holder
-- answers: int
INSERT INTO {table} AS lease (name, owner, token, ends_at, acquired_at, version, holder)
VALUES (:1, :2, {now}, {now} + :3, {now}, {now}, :4)
ON CONFLICT (name) DO UPDATE SET
    owner       = excluded.owner,
    token       = CASE WHEN lease.owner = excluded.owner AND lease.ends_at > {now} THEN lease.token
                       ELSE greatest(lease.token + 1, {now}) END,
    acquired_at = CASE WHEN lease.owner = excluded.owner THEN lease.acquired_at ELSE {now} END,
    ends_at     = greatest(lease.ends_at, {now} + :3),
    version     = lease.version + 1,
    holder      = excluded.holder
WHERE (lease.ends_at <= {now} AND lease.token < 9007199254740991) OR (lease.owner = excluded.owner AND lease.ends_at > {now})
RETURNING token;

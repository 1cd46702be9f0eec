-- Grants the row of a name to an owner if the row is free, and answers the token; no row if another owner holds it. It fails
-- with a division by zero if the row is free and no token is left.
--
-- Invariant: at most one unexpired owner per name, and every grant has a larger token than the one before. The primary key
-- allows one row per name, and under READ COMMITTED the condition is evaluated once the row is locked.
--
-- A row is free if it is missing or if its lease, or linger, has ended. A new token is max(last + 1, server clock in µs), at
-- most 2^53 - 1. An owner that holds the row already (the reply to its first attempt was lost) gets the same token again.
--
-- :1 name   :2 owner   :3 ttl in microseconds   :4 holder
-- answers: int
INSERT INTO {table} AS lease (name, owner, token, ends_at, acquired_at, version, holder)
VALUES (:1, :2, {now}, {now} + :3, {now}, {now}, :4)
ON CONFLICT (name) DO UPDATE SET
    owner       = excluded.owner,
    token       = CASE WHEN lease.ends_at > {now} AND lease.owner = excluded.owner THEN lease.token
                       ELSE greatest(lease.token + 1, {now}) END,
    ends_at     = greatest(lease.ends_at, {now} + :3),
    acquired_at = {now},
    version     = lease.version + 1,
    holder      = excluded.holder
WHERE CASE WHEN lease.ends_at <= {now} THEN 1 / CASE WHEN lease.token < 9007199254740991 THEN 1 ELSE 0 END = 1
           ELSE lease.owner = excluded.owner END
RETURNING token;

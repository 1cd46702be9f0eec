-- Grants the row of a name if its lease has ended, and answers a token that is larger by one; no row if it is held.
-- $1 name   $2 owner   $3 lease in microseconds
INSERT INTO {table} AS lease (name, owner, token, ends_at, acquired_at, version, holder)
VALUES ($1, $2, 1, extract(epoch FROM clock_timestamp()) * 1000000 + $3, 0, 0, '')
ON CONFLICT (name) DO UPDATE SET
    owner   = excluded.owner,
    token   = lease.token + 1,
    ends_at = excluded.ends_at
WHERE lease.ends_at <= extract(epoch FROM clock_timestamp()) * 1000000
RETURNING token;

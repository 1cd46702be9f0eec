-- Grants the row of a name if its lease has ended, with a token that is larger by one; no row is changed if it is held.
-- ?1 name   ?2 owner   ?3 host time now   ?4 end of the lease
INSERT INTO {table} AS lease (name, owner, token, ends_at, linger_until, written_at, boot, acquired_at, holder)
VALUES (?1, ?2, 1, ?4, 0, ?3, NULL, 0, '')
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, token = lease.token + 1, ends_at = excluded.ends_at
WHERE lease.ends_at <= ?3;

-- Grants a name to one claim if the row is free and the Unix time is larger than its last token: then the time is the token,
-- which the caller knows, and SQLite makes no table of claims and none of answers. If no row is changed, acquire.sql decides.
--
-- Invariant: the same as that of acquire.sql.
--
-- ?1 name   ?2 owner   ?3 end of the lease   ?4 host time now   ?5 boot id   ?6 Unix time now   ?7 holder
INSERT INTO {table} AS lease (name, owner, token, ends_at, linger_until, written_at, boot, acquired_at, holder)
VALUES (?1, ?2, ?6, ?3, 0, ?4, ?5, ?6, ?7)
ON CONFLICT (name) DO UPDATE SET
    owner        = excluded.owner,
    token        = excluded.token,
    ends_at      = excluded.ends_at,
    written_at   = excluded.written_at,
    boot         = excluded.boot,
    acquired_at  = excluded.acquired_at,
    holder       = excluded.holder
WHERE lease.ends_at <= ?4 AND lease.linger_until <= ?4 AND lease.token < ?6;

-- Grants a name to one claim if the row is free and the Unix time is larger than its last token: then the time is the token,
-- which the caller knows, and SQLite makes no table of claims and none of answers. If no row is changed, acquire.sql decides.
--
-- Invariant: the same as that of acquire.sql.
--
-- ?1 name   ?2 owner   ?3 end of the lease   ?4 holder   ?5 host time now   ?6 Unix time now   ?7 boot id
INSERT INTO {table} AS lease (name, owner, token, ends_at, linger_until, written_at, boot, acquired_at, holder)
VALUES (?1, ?2, ?6, ?3, 0, ?5, ?7, ?6, ?4)
ON CONFLICT (name) DO UPDATE SET
    owner        = excluded.owner,
    token        = excluded.token,
    ends_at      = excluded.ends_at,
    written_at   = excluded.written_at,
    boot         = excluded.boot,
    acquired_at  = excluded.acquired_at,
    holder       = excluded.holder
WHERE lease.ends_at <= ?5 AND lease.linger_until <= ?5 AND lease.token < ?6;

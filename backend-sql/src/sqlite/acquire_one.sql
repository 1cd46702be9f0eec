-- Grants a name to one claim as acquire.sql does, where the clock alone makes its tokens: the Unix time, larger than the last
-- one, and those behind it. That is nearly always so, and the caller knows them: SQLite need not make a table of answers, nor one of claims.
-- If no row was changed, acquire.sql decides.
--
-- ?1 host time now   ?2 Unix time now   ?3 boot id   ?4 name   ?5 owner   ?6 end of the lease   ?7 holder
-- ?8 tokens wanted behind the first
INSERT INTO {table} AS lease (name, owner, token, ends_at, linger_until, written_at, boot, acquired_at, holder)
VALUES (?4, ?5, ?2 + ?8, ?6, 0, ?1, ?3, ?2, ?7)
ON CONFLICT (name) DO UPDATE SET
    owner        = excluded.owner,
    token        = excluded.token,
    ends_at      = excluded.ends_at,
    written_at   = excluded.written_at,
    boot         = excluded.boot,
    acquired_at  = excluded.acquired_at,
    holder       = excluded.holder
WHERE lease.ends_at <= ?1 AND lease.linger_until <= ?1 AND lease.token < ?2;

-- Grants a name to one claim as acquire.sql does, where the clock alone makes its tokens: the Unix time, larger than the last
-- one, and those behind it. That is nearly always so, and the caller knows them: SQLite need not make a table of answers, nor one of claims.
-- If no row was changed, acquire.sql decides.
--
-- ?1 name   ?2 owner   ?3 end of the lease   ?4 holder   ?5 tokens wanted behind the first
-- ?6 host time now   ?7 Unix time now   ?8 boot id
INSERT INTO {table} AS lease (name, owner, token, ends_at, linger_until, written_at, boot, acquired_at, holder)
VALUES (?1, ?2, ?7 + ?5, ?3, 0, ?6, ?8, ?7, ?4)
ON CONFLICT (name) DO UPDATE SET
    owner        = excluded.owner,
    token        = excluded.token,
    ends_at      = excluded.ends_at,
    written_at   = excluded.written_at,
    boot         = excluded.boot,
    acquired_at  = excluded.acquired_at,
    holder       = excluded.holder
WHERE lease.ends_at <= ?6 AND lease.linger_until <= ?6 AND lease.token < ?7;

-- Grants to each claim the row of its name if the row is free, and answers the owner and the token of each grant.
--
-- Invariant: at most one unexpired owner per name, and every grant has a larger token than the one before. The primary key
-- allows one row per name, and SQLite runs one write statement at a time in the whole file.
--
-- A row is free if it is missing or if its lease and its linger are both over. A new token is max(last + 1, Unix time in µs),
-- at most 2^53 - 1: the time carries the order over a lost file.
--
-- :1 host time now   :2 Unix time now   :3 boot id
WITH claim (name, owner, ends_at, holder) AS (VALUES {claims})
INSERT INTO {table} AS lease (name, owner, token, ends_at, linger_until, written_at, boot, acquired_at, holder)
SELECT name, owner, :2, ends_at, 0, :1, :3, :2, holder FROM claim WHERE name IS NOT NULL
ON CONFLICT (name) DO UPDATE SET
    owner        = excluded.owner,
    token        = max(lease.token + 1, excluded.token),
    ends_at      = excluded.ends_at,
    written_at   = excluded.written_at,
    boot         = excluded.boot,
    acquired_at  = excluded.acquired_at,
    holder       = excluded.holder
WHERE lease.ends_at <= :1 AND lease.linger_until <= :1 AND lease.token < 9007199254740991
RETURNING owner, token;

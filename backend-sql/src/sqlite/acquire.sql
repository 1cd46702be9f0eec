-- Grants to each claim the row of its name if the row is free, and answers the owner and the token of each grant.
--
-- Invariant: at most one unexpired owner per name, and every grant has a larger token than the one before. The primary key
-- allows one row per name, and SQLite runs one write statement at a time in the whole file.
--
-- A row is free if it is missing or if its lease and its linger are both over. A new token is max(last + 1, Unix time in µs),
-- at most 2^53 - 1: the time carries the order over a lost file.
--
-- ?1 claims: a JSON array of [name in hex, owner in hex, end of the lease, holder]
-- ?2 host time now   ?3 boot id   ?4 Unix time now
INSERT INTO {table} AS lease (name, owner, token, ends_at, linger_until, written_at, boot, acquired_at, holder)
SELECT unhex(value ->> 0), unhex(value ->> 1), ?4, value ->> 2, 0, ?2, ?3, ?4, value ->> 3 FROM json_each(?1) WHERE true
ON CONFLICT (name) DO UPDATE SET
    owner        = excluded.owner,
    token        = max(lease.token + 1, excluded.token),
    ends_at      = excluded.ends_at,
    written_at   = excluded.written_at,
    boot         = excluded.boot,
    acquired_at  = excluded.acquired_at,
    holder       = excluded.holder
WHERE lease.ends_at <= ?2 AND lease.linger_until <= ?2 AND lease.token < 9007199254740991
RETURNING owner, token;

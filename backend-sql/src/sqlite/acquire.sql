-- Grants to each claim the row of its name, if that is free, and answers who was granted what: its last token, and the time of the
-- grant, which together say all of its tokens (`lease/tokens.rs`).
--
-- Free: there is no row yet, or its lease and its linger are both over. The primary key makes two rows of one name
-- impossible, and SQLite runs one write statement at a time in the whole file: so of all that ask, one is granted.
-- The token grows with every grant, whatever the clocks do: by one at least, and up to the Unix time in microseconds,
-- which carries the order over a file that was lost. It ends at 2^53 - 1. Several in a row are reserved if that time has
-- passed the last one.
--
-- :1 host time now   :2 Unix time now   :3 boot id
WITH claim (name, owner, ends_at, holder, more) AS (VALUES {claims})
INSERT INTO {table} AS lease (name, owner, token, ends_at, linger_until, written_at, boot, acquired_at, holder)
SELECT name, owner, :2 + more, ends_at, 0, :1, :3, :2, holder FROM claim WHERE name IS NOT NULL
ON CONFLICT (name) DO UPDATE SET
    owner        = excluded.owner,
    token        = CASE WHEN lease.token < :2 THEN excluded.token ELSE lease.token + 1 END,
    ends_at      = excluded.ends_at,
    written_at   = excluded.written_at,
    boot         = excluded.boot,
    acquired_at  = CASE WHEN lease.token >= :2 AND lease.token < :2 + 2000 THEN lease.token + 1 ELSE :2 END,
    holder       = excluded.holder
WHERE lease.ends_at <= :1 AND lease.linger_until <= :1 AND lease.token < 9007199254740991
RETURNING owner, token, acquired_at;

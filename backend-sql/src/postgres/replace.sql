-- Changes the readers of a name if its row is as it was read; a row says that it was.
--
-- The end of another owner's lease is checked again: the read may have come from a replica whose clock is ahead.
--
-- Invariant: of all owners that have read one version, one finds it again, because every change makes a new version.
--
-- A message wakes the waiters of a row that poll.sql has marked.
--
-- :1 name   :2 version that was read   :3 the owner that stands for readers   :4 token   :5 end of the last reader   :6 readers
-- :7 the change counts only before this time
-- answers: int
WITH changed AS (
    UPDATE {table} SET
        owner       = :3,
        token       = :4,
        ends_at     = :5,
        acquired_at = {now},
        version     = version + 1,
        holder      = '',
        sharers     = :6
    WHERE name = :1 AND version = :2 AND (owner = :3 OR ends_at <= {now}) AND {now} < :7
    RETURNING name, wanted_until
)
SELECT CAST(1 AS bigint), CASE WHEN wanted_until > {now} THEN {notify} END FROM changed;

-- Changes the readers of a name if its row is as it was read; the number of changed rows says whether it was.
--
-- The end of another owner's lease is checked again: the read may have come from a replica whose clock is ahead.
--
-- Invariant: of all owners that have read one version, one finds it again, because every change makes a new version.
--
-- :1 name   :2 version that was read   :3 the owner that stands for readers   :4 token   :5 end of the last reader   :6 readers
-- :7 the change counts only before this time
UPDATE {table} SET
    owner       = :3,
    token       = :4,
    ends_at     = :5,
    acquired_at = {now},
    version     = version + {one_if_writable},
    holder      = '',
    sharers     = :6
WHERE name = :1 AND version = :2 AND (owner = :3 OR ends_at <= {now}) AND {now} < :7;

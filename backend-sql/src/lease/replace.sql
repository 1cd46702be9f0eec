-- Writes the row of a name if it is as it was read: for readers, and for an exclusive owner in the optimistic mode.
--
-- Invariant: of all owners that have read one version, one finds it again, because every change makes a new version. A row that was
-- purged and made again has another version, since versions begin with the time. Only a clock that goes back over the purge could
-- repeat one, and then the token of the row is not smaller than the new one.
--
-- The end of another owner's lease is checked again: the read may have come from a replica whose clock is ahead. For the same reason
-- an exclusive lease is counted from the write. Each change of readers or marks on a marked row sends a message, also a renewal.
-- A larger token is a grant, and sets its time. MySQL assigns columns in the order in which they stand here: the token comes later.
--
-- :1 name   :2 version that was read   :3 owner, or the one that stands for readers   :4 token   :5 end of the last reader   :6 readers
-- :7 the change counts only before this time   :8 ttl of an exclusive owner in microseconds, else 0   :9 its holder
UPDATE {table} SET
    acquired_at = CASE WHEN token < :4 THEN {now} ELSE acquired_at END,
    owner       = :3,
    token       = :4,
    ends_at     = CASE WHEN :8 > 0 THEN GREATEST(ends_at, {now} + :8) ELSE :5 END,
    version     = version + {one_if_writable},
    holder      = :9,
    sharers     = :6
WHERE name = :1 AND version = :2 AND (owner = :3 OR (ends_at <= {now} AND token < :4)) AND {now} < :7
{returning} CASE WHEN wanted_until > {now} AND :8 = 0 THEN {notify} END;

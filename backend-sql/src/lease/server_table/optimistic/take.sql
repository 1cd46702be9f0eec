-- Grants the row of a name to an owner if the row is as it was read; one changed row says that it was.
--
-- Invariant: of all owners that have read one version, one finds it again, because every change makes a new version.
--
-- The end of the lease is checked again: the read may have come from a replica whose clock is ahead. A row that was purged
-- and made again has another version, since versions begin with the time. Only a clock that goes back over the purge could
-- repeat one, and then the token of the row is not smaller than the new one.
--
-- :1 name   :2 version that was read   :3 owner   :4 token   :5 ttl in microseconds   :6 holder
UPDATE {table} SET
    owner       = :3,
    token       = :4,
    ends_at     = {now} + :5,
    acquired_at = {now},
    version     = version + {one_if_writable},
    holder      = :6
WHERE name = :1 AND version = :2 AND token < :4 AND ends_at <= {now};

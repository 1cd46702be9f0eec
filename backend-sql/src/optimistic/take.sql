-- Takes the row of a name for an owner, if it is still as it was read: the number of changed rows says whether it was.
--
-- Of all that have read one version, one finds it again: this makes it another. Whether the lease is over is asked
-- again: what was read may come from another server, a replica, whose clock ends no lease here. A row that was purged since then, and made anew, has
-- another: versions begin with the time. Only the clock going back over the purge could bring one back, and then the token
-- of whoever holds it is larger than what was worked out.
--
-- :1 name   :2 version that was read   :3 owner   :4 first token   :5 last token   :6 time of the grant
-- :7 ttl in microseconds   :8 holder
UPDATE {table} SET
    owner       = :3,
    token       = :5,
    ends_at     = {now} + :7,
    acquired_at = :6,
    version     = version + 1,
    holder      = :8
WHERE name = :1 AND version = :2 AND token < :4 AND ends_at <= {now};

-- Ends the lease of an owner who holds it now, and wakes those who wait for it; a row says that it was ended.
--
-- Others are kept out for the linger, if there is one; then there is nothing to wake for yet. Nobody is woken where no
-- waiter has said lately that it waits, or where the lock is for another one of the same process: a notification takes
-- a lock of the whole database at the commit.
--
-- :1 linger in microseconds   :2 name   :3 owner   :4 1 to wake, 0 to wake nobody
-- answers: int
WITH freed AS (
    UPDATE {table} SET
        ends_at = CASE WHEN :1 > 0 THEN {now} + :1 ELSE 0 END,
        owner   = NULL,
        version = version + 1,
        holder  = ''
    WHERE name = :2 AND owner = :3 AND ends_at > {now}
    RETURNING name, ends_at, wanted_until
)
SELECT CAST(1 AS bigint),
       CASE WHEN :4 > 0 AND ends_at = 0 AND wanted_until > {now} THEN pg_notify('{channel}', encode(name, 'hex')) END
FROM freed;

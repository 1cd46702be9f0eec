-- Ends the lease of an owner who holds it now; a row says that it was ended.
--
-- Others are kept out for the linger, if there is one. A message wakes the waiters of a row that poll.sql has marked, unless it
-- lingers. The release of another row, or after less than 20 ms, sends none, because a notification locks the whole database at the
-- commit, and waiters poll short holds often.
--
-- :1 linger in microseconds   :2 name   :3 owner
-- answers: int
WITH freed AS (
    UPDATE {table} SET
        ends_at = CASE WHEN :1 > 0 THEN {now} + :1 ELSE 0 END,
        owner   = NULL,
        version = version + 1,
        holder  = ''
    WHERE name = :2 AND owner = :3 AND ends_at > {now}
    RETURNING name, ends_at, wanted_until, acquired_at
)
SELECT CAST(1 AS bigint),
       CASE WHEN ends_at = 0 AND wanted_until > {now} AND acquired_at < {now} - 20000
            THEN {notify} END
FROM freed;

-- Ends the lease of an owner who holds it now; the number of changed rows says whether it did. With `token` in {known_by}, ends one
-- grant of any owner, or the linger after it; a later grant is not touched.
--
-- Others are kept out for the linger, if there is one. A message wakes the waiters of a row that poll.sql has marked, unless it
-- lingers. The release of another row, or after less than 20 ms, sends none, because a notification locks the whole database at the
-- commit, and waiters poll short holds often. Where the database sends no messages, the statement has no last line.
--
-- :1 linger in microseconds   :2 name   :3 owner, or token
UPDATE {table} SET
    ends_at = CASE WHEN :1 > 0 THEN {now} + :1 ELSE 0 END,
    owner   = NULL,
    version = version + {one_if_writable},
    holder  = ''
WHERE name = :2 AND {known_by} = :3 AND ends_at > {now}
{returning} CASE WHEN ends_at = 0 AND wanted_until > {now} AND acquired_at < {now} - 20000 THEN {notify} END;

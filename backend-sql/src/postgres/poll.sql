-- The rows of these names that are held, or linger: the owner, the microseconds since the grant and until the end, and 1 if the
-- release of the row will send a message.
--
-- Marks those that are held for 20 ms already, for 2 s, unless the last mark lasts for 1 s still: only the release of a marked row
-- sends a message. A mark that is set here counts from the next poll on, because a release may come between the two steps of this
-- statement. SKIP LOCKED: a poll waits for no other statement, so it takes part in no deadlock.
--
-- No release sends a message if this user may not send any: others are taken to have the same rights.
--
-- :1 names
-- answers: bytes bytes int int int
WITH awaited AS (
    SELECT name, owner, acquired_at, ends_at, wanted_until FROM {table} WHERE name IN ([:1]) AND ends_at > {now}
), marked AS (
    UPDATE {table} SET wanted_until = {now} + 2000000 WHERE name IN (
        SELECT lease.name FROM {table} AS lease
        WHERE lease.name IN (SELECT name FROM awaited WHERE wanted_until < {now} + 1000000 AND acquired_at < {now} - 20000)
          AND lease.ends_at > {now}
        FOR NO KEY UPDATE OF lease SKIP LOCKED
    )
)
SELECT name, owner, {now} - acquired_at, ends_at - {now},
       CAST(CASE WHEN wanted_until > {now} + 500000 AND acquired_at < {now} - 20000
                 AND has_function_privilege('pg_catalog.pg_notify(text, text)', 'execute') THEN 1 ELSE 0 END AS bigint)
FROM awaited;

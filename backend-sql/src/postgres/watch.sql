-- Those of the names that are held, or linger: by whom, since when, and for how long whoever gives it up will still ring.
--
-- :1 names
-- answers: bytes bytes int int
SELECT name, owner, {now} - acquired_at, wanted_until - {now} FROM {table} WHERE name IN ([:1]) AND ends_at > {now};

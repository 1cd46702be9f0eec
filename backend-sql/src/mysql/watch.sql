-- Those of the names that are held, or linger: by whom, and since when. Nobody rings when one is given up.
--
-- :1 names
-- answers: bytes bytes int int
SELECT name, owner, {now} - acquired_at, 0 FROM {table} WHERE name IN ([:1]) AND ends_at > {now};

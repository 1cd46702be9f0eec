-- The rows of these names that are held, or linger: the owner, the microseconds since the grant and until the end, and 0, because
-- no message tells of the release.
--
-- :1 names
-- answers: bytes bytes int int int
SELECT name, owner, {now} - acquired_at, ends_at - {now}, 0 FROM {table} WHERE name IN ([:1]) AND ends_at > {now};

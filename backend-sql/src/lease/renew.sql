-- Extends the lease of each claim whose owner holds it now; the number of changed rows says how many did.
--
-- A lease that has ended is not brought back, another owner's is not touched, none is shortened, no token changes. An
-- owner is of one acquisition, so it stands in the row of one name: both lists together mean each claim's own pair. The
-- version changes with every renewal, so that a server which counts changes counts every one.
--
-- :1 ttl in microseconds   :2 names   :3 owners
UPDATE {table} SET
    ends_at = GREATEST(ends_at, {now} + :1),
    version = version + {one_if_writable}
WHERE name IN ([:2]) AND owner IN ([:3]) AND ends_at > {now};

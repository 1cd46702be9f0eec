-- Deletes the rows of these names if they still are what idle.sql looks for: one that was taken meanwhile is kept. Found by
-- the primary key alone, so that no other row is locked.
--
-- :1 how long, in microseconds   :2 names
DELETE FROM {table} WHERE name IN ([:2]) AND ends_at <= {now} - :1 AND token - 1 + {one_if_writable} <= {now} - :1;

-- Leaves the mark of a writer that waits for readers, or renews it: it lasts for 2 s. Not beside an exclusive owner.
--
-- :1 name   :2 owner, in hexadecimal
UPDATE {table} SET sharers = JSON_SET(COALESCE(sharers, '{}'), CONCAT('$."', :2, '"'), {now} + 1999999 + {one_if_writable})
WHERE name = :1 AND owner IS NULL;

-- Leaves the mark of a writer that waits for readers, or renews it: it lasts for 2 s. Not beside an exclusive owner.
--
-- :1 name   :2 owner, in hexadecimal
UPDATE {table} SET sharers = coalesce(CAST(sharers AS jsonb), '{}') || jsonb_build_object(:2, {now} + 2000000)
WHERE name = :1 AND owner IS NULL;

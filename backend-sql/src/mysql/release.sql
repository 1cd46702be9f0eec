-- Ends the lease of an owner who holds it now; the number of changed rows says whether it did.
--
-- Others are kept out for the linger, if there is one.
--
-- :1 linger in microseconds   :2 name   :3 owner
UPDATE {table} SET
    ends_at = CASE WHEN :1 > 0 THEN {now} + :1 ELSE 0 END,
    owner   = NULL,
    version = version + {one_if_writable},
    holder  = ''
WHERE name = :2 AND owner = :3 AND ends_at > {now};

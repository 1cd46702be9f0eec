-- Notes, for people, that an exclusive owner has released the lock. The entry of a later holder is not touched.
--
-- :1 name   :2 token
UPDATE {table} SET owner = NULL, holder = '' WHERE name = :1 AND token = :2 AND owner IS NOT NULL AND {one_if_writable} = 1;

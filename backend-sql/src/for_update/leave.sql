-- Notes, for people, that an exclusive owner has released the lock. The entry of a later holder is not touched.
--
-- :1 name   :2 owner
UPDATE {table} SET owner = NULL, holder = '' WHERE name = :1 AND owner = :2;

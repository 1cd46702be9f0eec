-- Notes that an owner has given the lock back; for people. A later holder's entry is not touched.
--
-- :1 name   :2 owner
UPDATE {table} SET owner = NULL, holder = '' WHERE name = :1 AND owner = :2;

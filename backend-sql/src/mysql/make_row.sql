-- Makes the row of a name, in a transaction of its own, unless it can be seen. If somebody else makes it at the same time,
-- it is there as well.
--
-- The insertion of a row that exists waits for the transaction that has it locked, and the first to make a row locks it next. So
-- the same statement first reads the row without waiting. If the row is made and locked between the read and the insertion,
-- MariaDB does not wait, by its setting; MySQL has no such setting, and waits for one second, its least.
--
-- :1 name
/*M! SET STATEMENT innodb_lock_wait_timeout = 0 FOR */
INSERT INTO {table} (name) SELECT :1 FROM DUAL WHERE {now} + {one_if_writable} > 0 AND NOT EXISTS (SELECT 1 FROM {table} WHERE name = :1);

-- Makes the row of a name, in a transaction of its own, unless it can be seen. If somebody else makes it at the same time,
-- it is there as well.
--
-- Whoever inserts what is there already waits for who has it locked, and the first to make a row locks it next. So it is
-- looked for in the same statement, by a read that waits for nobody. If it is made and locked between that look and the
-- insertion, MariaDB is told not to wait; MySQL, which cannot be, waits for one second, the least that it knows.
--
-- :1 name
/*M! SET STATEMENT innodb_lock_wait_timeout = 0 FOR */
INSERT INTO {table} (name) SELECT :1 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE name = :1);

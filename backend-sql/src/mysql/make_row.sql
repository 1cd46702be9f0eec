-- Makes the row of a name, in a transaction of its own. Only for a name whose row was not found. If somebody else makes it
-- at the same time, it is there as well; and if he has locked it by then, MariaDB is told not to wait for him. MySQL waits
-- as long as the session's lock time-out allows.
--
-- :1 name
/*M! SET STATEMENT innodb_lock_wait_timeout = 0 FOR */ INSERT INTO {table} (name) VALUES (:1);

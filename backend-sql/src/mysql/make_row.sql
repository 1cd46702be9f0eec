-- Makes the row of a name, in a transaction of its own. Only for a name whose row was not found: the row of a held lock
-- would have to be waited for. If somebody else makes it at the same time, it is there as well.
--
-- :1 name
INSERT INTO {table} (name) VALUES (:1);

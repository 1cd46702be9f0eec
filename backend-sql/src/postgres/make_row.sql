-- Makes the row of a name, in a transaction of its own. If somebody else makes it at the same time, it is there as well.
--
-- :1 name
INSERT INTO {table} (name) VALUES (:1) ON CONFLICT (name) DO NOTHING;

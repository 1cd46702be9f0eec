-- Removes a reader, by its token, or the mark of a writer, by its owner in hexadecimal.
--
-- :1 name   :2 token or owner, as text
UPDATE {table} SET sharers = JSON_REMOVE(sharers, CONCAT('$."', :2, '"')) WHERE name = :1 AND sharers IS NOT NULL AND {one_if_writable} = 1;

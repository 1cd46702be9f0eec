-- Makes the row of a name, free. If another client makes it at the same time, it is there as well.
--
-- The version begins with the time: that of a row which was purged and made anew is none that any client has read.
--
-- :1 name
INSERT INTO {table} (name, owner, token, ends_at, acquired_at, version, holder)
VALUES (:1, NULL, 0, 0, 0, {now} - 1 + {one_if_writable}, '') {unless_there};

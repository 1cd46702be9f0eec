-- Deletes what was entered of a name :2 microseconds ago or earlier. Run while the row of the name is locked, so that nobody enters.
DELETE FROM {table} WHERE name = :1 AND token - 1 + {one_if_writable} <= {now} - :2;

-- Names from the bytes :1 on, before :2, that were entered last so long ago, in microseconds, as :3 says; a few, in their
-- order. Some of them may be held: their rows say so.
-- answers: bytes
SELECT name FROM {table} WHERE name >= :1 AND name < :2 AND token <= {now} - :3 ORDER BY name LIMIT 128;

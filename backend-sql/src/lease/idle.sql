-- Names from the bytes :1 on, before :2, that are free, and were free for so long, and whose tokens are as old; a few, in
-- their order. :3 is how long, in microseconds. A read, which locks nothing.
-- answers: bytes
SELECT name FROM {table}
WHERE name >= :1 AND name < :2 AND ends_at <= {now} - :3 AND token <= {now} - :3
ORDER BY name LIMIT 128;

-- Makes the row of a name, free. If another process makes it at the same time, it is there as well.
--
-- ?1 name   ?2 the owner that stands for readers   ?3 host time now   ?4 boot id
INSERT INTO {table} (name, owner, token, ends_at, linger_until, written_at, boot, acquired_at, holder)
VALUES (?1, ?2, 0, 0, 0, ?3, ?4, 0, '')
ON CONFLICT (name) DO NOTHING;

-- Changes the readers of a name if its row is as it was read; the number of changed rows says whether it was.
--
-- Each statement that changes the row also changes one of the numbers that are compared, or the readers.
--
-- ?1 name   ?2 the owner that stands for readers   ?3 token   ?4 end of the last reader   ?5 readers   ?6 host time now
-- ?7 Unix time now   ?8 boot id   as they were read: ?9 token   ?10 end   ?11 end of the linger   ?12 last change   ?13 readers   ?14 the change counts only before
UPDATE {table} SET
    owner        = ?2,
    token        = ?3,
    ends_at      = ?4,
    linger_until = 0,
    written_at   = ?6,
    boot         = ?8,
    acquired_at  = ?7,
    holder       = '',
    sharers      = ?5
WHERE name = ?1 AND token = ?9 AND ends_at = ?10 AND linger_until = ?11 AND written_at = ?12 AND sharers = ?13
  AND ?6 < ?14;

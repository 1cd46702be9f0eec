-- Whether an entry was made since the server has started. Connections are numbered anew with it: one from before may name a
-- connection that is anybody's by now.
--
-- The server notes its start in whole seconds, and an entry from before in the same second is taken for a later one. That grants
-- nothing: at most `inspect` shows a reader that has ended, if the same user has a connection with its number again.
--
-- :1 token, the time in microseconds at which it was made
-- answers: int
SELECT CAST(CASE WHEN :1 >= (UNIX_TIMESTAMP() - CAST(VARIABLE_VALUE AS SIGNED)) * 1000000 THEN 1 ELSE 0 END AS SIGNED)
FROM /*M! information_schema.GLOBAL_STATUS */ /*!80000 performance_schema.global_status */
WHERE VARIABLE_NAME = 'UPTIME';

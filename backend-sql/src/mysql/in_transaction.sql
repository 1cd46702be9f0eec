-- A row if there is a session with this number of a connection, which may be in a transaction. The sessions of other users are seen with
-- the right PROCESS: without it, such a session may be there. No user stands for one's own.
--
-- MySQL hides a session for a moment, at its end, in which it is rolled back: a lock may last for so long after it is said to have ended.
--
-- :1 number of the connection   :2 time: not needed here   :3 its user
-- answers: int
SELECT CAST(1 AS SIGNED) FROM DUAL
WHERE EXISTS (SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = :1)
   OR (CAST(:3 AS BINARY) <> CAST(CURRENT_USER() AS BINARY) AND NOT EXISTS (
          SELECT 1 FROM information_schema.USER_PRIVILEGES
          WHERE PRIVILEGE_TYPE = 'PROCESS' AND GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')));

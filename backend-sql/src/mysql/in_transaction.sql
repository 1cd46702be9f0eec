-- A row if there is, or may be, a session with this number of a connection. Sessions of other users are seen with the right PROCESS;
-- without it, they may be there. PROCESS by a role is not seen here. NULL in :3 means the own user.
--
-- MySQL hides a session for a moment at its end, while it is rolled back. The lock may outlive the answer "no row" by this moment.
--
-- :1 number of the connection   :2 time: not needed here   :3 its user
-- answers: int
SELECT CAST(1 AS SIGNED) FROM DUAL
WHERE EXISTS (SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = :1)
   OR (CAST(:3 AS BINARY) <> CAST(CURRENT_USER() AS BINARY) AND NOT EXISTS (
          SELECT 1 FROM information_schema.USER_PRIVILEGES
          WHERE PRIVILEGE_TYPE = 'PROCESS' AND GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')));

-- A row if a connection may be still in the transaction that was under way when a token was given: if its session is there. The sessions
-- of other users are seen with the right PROCESS; without it, such a session may be there.
--
-- MySQL hides a session while it is rolled back at its end, for a moment. The lock of a reader that has ended then lasts longer than is said.
--
-- :1 number of the connection   :2 token: see is_of_this_run.sql   :3 the user of the connection
-- answers: int
SELECT CAST(1 AS SIGNED) FROM DUAL
WHERE EXISTS (SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = :1)
   OR (:3 <> CURRENT_USER() AND NOT EXISTS (
          SELECT 1 FROM information_schema.USER_PRIVILEGES
          WHERE PRIVILEGE_TYPE = 'PROCESS' AND GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')));

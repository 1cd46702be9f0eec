-- A row if there is, or may be, a session with this number of a connection, and the server has not started since this time: it numbers
-- its connections anew then. Sessions of other users are seen with the right PROCESS; without it, they may be there. PROCESS by a role
-- is not seen here. NULL in :3 means the own user.
--
-- MySQL hides a session for a moment at its end, while it is rolled back. The lock may outlive the answer "no row" by this moment.
--
-- The server notes its start in whole seconds, and a time before it in the same second is taken for a later one. That grants nothing: at
-- most `inspect` shows a reader that has ended, if the same user has a connection with its number again.
--
-- MySQL fills its information_schema.PROCESSLIST with the statements of all sessions, and fails if one has bytes that are no utf8mb3, as
-- owners and names are (error 3854 of 9.7). The table of the same name in performance_schema is read by its columns.
--
-- :1 number of the connection   :2 time in microseconds   :3 its user
-- answers: int
SELECT CAST(1 AS SIGNED) FROM DUAL
WHERE :2 >= 1000000 * (UNIX_TIMESTAMP() - (
          SELECT CAST(VARIABLE_VALUE AS SIGNED)
          FROM /*M! information_schema.GLOBAL_STATUS */ /*!80000 performance_schema.global_status */
          WHERE VARIABLE_NAME = 'UPTIME'))
  AND (EXISTS (
           SELECT 1 FROM (
               SELECT ID FROM information_schema.PROCESSLIST
               /*!80022 WHERE NOT @@performance_schema UNION ALL SELECT ID FROM performance_schema.processlist */
           ) AS sessions WHERE ID = :1)
       OR (CAST(:3 AS BINARY) <> CAST(CURRENT_USER() AS BINARY) AND NOT EXISTS (
               SELECT 1 FROM information_schema.USER_PRIVILEGES
               WHERE PRIVILEGE_TYPE = 'PROCESS' AND GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), ''''))));

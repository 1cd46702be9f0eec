-- Whether writes go to several nodes. By name, because not every build of MariaDB has the variable; MySQL does not
-- execute the comment.
-- answers: text
SELECT COALESCE(/*M! (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_VARIABLES WHERE VARIABLE_NAME = 'WSREP_ON'), */ '0')
